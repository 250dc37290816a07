"""How full a session's context is: counted by the model where it has counted, estimated where it has not.

A token is taken for four ASCII characters or one other character. Where that is too few, the model's own error
says so, and ends the session with the same sentence.
"""

import math
from collections.abc import Iterable

import msgspec

from loopd.session.baseline import Baseline
from loopd.session.prompt import message
from loopd.session.records import Record
from proto.canon import compact

_CHARS_PER_TOKEN = 4
_TOKENS_AROUND_MESSAGE = 4
_LEAST_RESULT_CHARS = 1000


class Window(msgspec.Struct, frozen=True):
    """The room of one session: `used` tokens of `context`, with `output` of it kept for the answer."""

    context: int
    output: int
    used: int

    @property
    def room(self) -> int:
        """How many tokens may still be added; negative when the session is full."""
        return self.context - self.output - self.used

    def with_record(self, record: Record) -> "Window":
        """The window after one more record."""
        return msgspec.structs.replace(self, used=self.used + record_tokens(record))

    def counted(self, tokens: int) -> "Window":
        """The window after the model has counted prompt and answer."""
        return msgspec.structs.replace(self, used=tokens)

    def clip_result(self, text: str, limit_bytes: int) -> str:
        """A tool result, cut so that it neither passes the limit nor fills more than a third of the room."""
        limit = min(limit_bytes, max(_LEAST_RESULT_CHARS, self.room * _CHARS_PER_TOKEN // 3))
        data = text.encode()
        if len(data) <= limit:
            return text
        kept = data[:limit].decode(errors="ignore")
        return f"{kept}\n… (cut: {len(kept):,} of {len(text):,} characters)"


def opened(baseline: Baseline, records: Iterable[Record], context: int, output: int) -> Window:
    """The window of a session of which nothing was counted yet."""
    fixed = text_tokens(baseline.system) + text_tokens(compact(baseline.tools))
    # A small context still leaves three quarters to the prompt.
    window = Window(context=context, output=min(output, context // 4), used=fixed)
    return window.counted(fixed + sum(record_tokens(record) for record in records))


def record_tokens(record: Record) -> int:
    """The estimated tokens of a record in the prompt."""
    return text_tokens(compact(message(record, send_reasoning=True))) + _TOKENS_AROUND_MESSAGE


def text_tokens(text: str) -> int:
    """The estimated tokens of a text."""
    ascii_chars = len(text) if text.isascii() else sum(char.isascii() for char in text)
    return math.ceil(ascii_chars / _CHARS_PER_TOKEN) + len(text) - ascii_chars
