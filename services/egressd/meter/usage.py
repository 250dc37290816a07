"""Tokens as the provider reported them, and how later reports join earlier ones."""

from typing import Any, Final, Protocol

import msgspec

_MOST_TOKENS: Final = 1 << 53


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one call; None where the provider has reported none.

    `input_tokens` counts the whole prompt, with what came from the provider's cache (`cache_read_tokens`) in it;
    `output_tokens` the whole answer, with its `reasoning_tokens` in it.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    reasoning_tokens: int | None = None


def latest(earlier: Usage, later: Usage) -> Usage:
    """The last value of each field; nothing is ever added up."""
    return Usage(
        **{
            field: earlier_value if (value := getattr(later, field)) is None else value
            for field in Usage.__struct_fields__
            for earlier_value in [getattr(earlier, field)]
        }
    )


def tokens(value: Any) -> int | None:
    """A count of tokens, or None for what is none (absent, negative, not a number)."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_TOKENS:
        return None
    return value


class Meter(Protocol):
    """Reads one answer's body, in any pieces; what it knows so far can be asked at any time."""

    @property
    def usage(self) -> Usage:
        """The tokens reported so far."""
        ...

    @property
    def model(self) -> str | None:
        """The model that the provider named last."""
        ...

    def feed(self, body: bytes) -> None:
        """Take the next piece of the body."""
        ...

    def end(self) -> None:
        """Take what stands without its end: the body is over."""
        ...
