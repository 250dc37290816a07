"""The JSON texts of an answer's body: of server-sent events, of the members of an array, or one value.

Which of the three it is, the first byte tells; servers name the content type wrongly more often than they begin an
event with a brace.

Law (tested): the texts do not depend on where the body is cut.
"""

import re
from collections.abc import Iterator
from typing import Final, Protocol

from egressd.meter.events import Events
from egressd.meter.kept import Kept, string_end

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BEFORE: Final = re.compile(rb"(?:[ \t\r\n]|\xef\xbb\xbf)*+")
_OUTSIDE: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*"|["{}\[\]]', re.DOTALL)
"""A string that ends in the same piece is stepped over in one go."""


class _Split(Protocol):
    def feed(self, piece: bytes) -> Iterator[bytes]: ...
    def end(self) -> Iterator[bytes]: ...


class Texts:
    """The JSON texts of one body, each as soon as it is whole."""

    def __init__(self) -> None:
        self._split: _Split | None = None
        self._begun = b""

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The texts that end in this piece; they are to be taken before the next piece is."""
        if self._split is None:
            piece = _without_space(self._begun + piece)
            self._begun = piece if _BYTE_ORDER_MARK.startswith(piece) else b""
            if self._begun or not piece:
                return iter(())
            self._split = _split(piece[:1])
        return self._split.feed(piece)

    def end(self) -> Iterator[bytes]:
        """A text that only the end of the body ends."""
        return iter(()) if self._split is None else self._split.end()


def _without_space(piece: bytes) -> bytes:
    found = _BEFORE.match(piece)
    return piece if found is None else piece[found.end() :]


def _split(first_byte: bytes) -> _Split:
    match first_byte:
        case b"{":
            return _One()
        case b"[":
            return _Members()
        case _:
            return Events()


class _One:
    """One value; it ends where the body does."""

    def __init__(self) -> None:
        self._kept = Kept()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        self._kept.add(piece)
        return iter(())

    def end(self) -> Iterator[bytes]:
        if self._kept and (text := self._kept.take()) is not None:
            yield text


class _Members:
    """The objects and arrays in an array, each at its closing bracket (Gemini's stream without `alt=sse`)."""

    def __init__(self) -> None:
        self._kept = Kept()
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        start, at = 0, self._after_string(piece)
        while not self._in_string and (found := _OUTSIDE.search(piece, at)) is not None:
            at = found.end()
            match found[0]:
                case b'"':
                    self._in_string = True
                    _, self._escaped = string_end(piece, at, False)
                case b"{" | b"[":
                    self._depth += 1
                    start = found.start() if self._depth == 2 else start
                case b"}" | b"]":
                    self._depth -= 1
                    if self._depth == 1:
                        self._kept.add(piece[start:at])
                        if (text := self._kept.take()) is not None:
                            yield text
                case _:
                    pass
        if self._depth > 1:
            self._kept.add(piece[start:])

    def end(self) -> Iterator[bytes]:
        return iter(())

    def _after_string(self, piece: bytes) -> int:
        """Where the string ends that the pieces before left open; it stays open when it does not."""
        if not self._in_string:
            return 0
        end, self._escaped = string_end(piece, 0, self._escaped)
        self._in_string = end == len(piece)
        return end + 1
