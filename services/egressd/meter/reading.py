"""What the meters of all APIs do alike: look through an answer for the texts that can hold a usage or a model."""

from abc import ABC, abstractmethod
from typing import Any, Final, TypeVar

import msgspec

from egressd.meter.texts import Texts

_Shape = TypeVar("_Shape")
_LONGEST_NAME_CHARS: Final = 256
_MOST_OPENED: Final = 100_000
"""Brackets that open in a text; of sixteen million bytes that are nothing else, the objects would take a gigabyte."""
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Reading(ABC):
    """The meter of one answer without what is the API's own: `_take` and `usage`.

    Most events hold neither a usage nor a model. What does not even have the name of one in it is not decoded; of what
    is decoded, only the named parts are built.
    """

    def __init__(self, usage_name: bytes, model_name: bytes) -> None:
        self.model: str | None = None
        """The model that the provider named last."""
        self._texts = Texts()
        self._usage_name = b'"%s"' % usage_name
        self._model_name = b'"%s"' % model_name

    def feed(self, body: bytes) -> None:
        """Take the next piece of the body."""
        for text in self._texts.feed(body):
            self._look(text)

    def end(self) -> None:
        """Take what stands without its end: the body is over."""
        for text in self._texts.end():
            self._look(text)

    def _look(self, text: bytes) -> None:
        named = self._usage_name in text or (self.model is None and self._model_name in text)
        if named and text.count(b"[") + text.count(b"{") <= _MOST_OPENED:
            self._take(text)

    @abstractmethod
    def _take(self, text: bytes) -> None:
        """Take the usage and the model out of a JSON text."""

    def _named(self, untrusted: Any) -> None:
        """Take a model's name."""
        if isinstance(untrusted, str) and 0 < len(untrusted) <= _LONGEST_NAME_CHARS:
            self.model = untrusted


def decoded(decoder: msgspec.json.Decoder[_Shape], text: bytes) -> _Shape | None:
    """The parts of a text that a decoder builds, or None for a text of another shape."""
    try:
        return decoder.decode(text)
    except _UNREADABLE:
        return None
