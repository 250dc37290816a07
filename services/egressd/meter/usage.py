"""Tokens as the provider reported them, and how later reports join earlier ones."""

from typing import Any, Final, Protocol, TypeVar

import msgspec

_MOST_TOKENS: Final = 1 << 53
_Counts = TypeVar("_Counts", bound=msgspec.Struct)


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one call; None where the provider has reported none.

    `input_tokens` counts the whole prompt, with what was read from the provider's cache and what was written to it in
    it; `output_tokens` the whole answer, with its `reasoning_tokens` in it. What is written to the cache for an hour or
    longer is `cache_write_1h_tokens`; for less, or for no time that the provider says, `cache_write_5m_tokens`.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_5m_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def uncached(self) -> int:
        """Tokens of the prompt that neither came from the cache nor went into it."""
        cached = added(self.cache_read_tokens, self.cache_write_5m_tokens, self.cache_write_1h_tokens)
        return max(0, (self.input_tokens or 0) - (cached or 0))


def latest(earlier: _Counts, later: _Counts) -> _Counts:
    """The last known value of each field of two reports of one kind; nothing is ever added up."""
    known = {
        field: earlier_value if (value := getattr(later, field)) is None else value
        for field in earlier.__struct_fields__
        for earlier_value in [getattr(earlier, field)]
    }
    return type(earlier)(**known)


def tokens(value: Any) -> int | None:
    """A count of tokens, or None for what is none (absent, negative, not a number)."""
    if type(value) is float and value.is_integer():
        value = int(value)
    # A boolean is none, though Python counts with it.
    return value if type(value) is int and 0 <= value < _MOST_TOKENS else None


def first(*values: Any) -> int | None:
    """The first count of tokens among the names that different servers have for one thing."""
    for value in values:
        if (count := tokens(value)) is not None:
            return count
    return None


def added(*parts: int | None) -> int | None:
    """The sum of the known parts of one report; None when none is known."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def cache_writes(whole: int | None, short: int | None, long: int | None) -> tuple[int | None, int | None]:
    """What was written to the cache for a short time and for a long one, of a whole and of parts that may be unsaid."""
    if whole is None:
        return short, long
    return max(0, whole - (long or 0)), long


def whole_output(said: int | None, reasoning: int | None, prompt: int | None, total: int | None) -> int | None:
    """The whole answer, of an API that counts reasoning as a part of it.

    Not every server does: where the total only fits with the reasoning added, it stands beside the answer (xAI's chat
    completions do so: docs.x.ai, "Consumption and Rate Limits").
    """
    if said is None or not reasoning or prompt is None:
        return said
    return said + reasoning if total == prompt + said + reasoning else said


def fields(value: Any) -> dict[str, Any]:
    """A JSON object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


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
