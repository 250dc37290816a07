"""Anthropic Messages: usage and model out of an answer, streamed (server-sent events) or one JSON value.

Sources: the Claude API reference, "Messages" and "Streaming Messages". `message_start` has the message with its model
and usage, `message_delta` a usage whose counts are of the whole message so far and replace those before. Their
`input_tokens` leave out what was read from the cache and written to it: the whole prompt is the sum of the three.
"Compaction" and "Advisor tool": what was spent beside the message stands in `usage.iterations` alone, as entries of
their own type, and is spent all the same.

Servers that speak this API for other models (SGLang: sgl-project/sglang#20830; see envoyproxy/ai-gateway#1631) say 0 in
`message_delta` for what they said in `message_start`: a nought there says nothing.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from egressd.meter.reading import Reading, decoded
from egressd.meter.usage import Usage, added, cache_writes, fields, latest, tokens

_BESIDE: Final = frozenset({"compaction", "advisor_message"})


class _Message(msgspec.Struct):
    model: Any = None
    usage: Any = None


class _Event(_Message):
    type: Any = None
    message: _Message | None = None


class _Counts(msgspec.Struct, frozen=True, kw_only=True):
    uncached: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    thinking: int | None = None


class _Beside(msgspec.Struct, frozen=True, kw_only=True):
    usages: tuple[Usage, ...] | None = None


_decoder: Final = msgspec.json.Decoder(_Event)


class Anthropic(Reading):
    """The meter of one answer."""

    def __init__(self) -> None:
        super().__init__(b"usage", b"model")
        self._counts = _Counts()
        self._beside = _Beside()

    @property
    def usage(self) -> Usage:
        """The tokens reported so far."""
        return _together(_usage(self._counts), *(self._beside.usages or ()))

    def _take(self, text: bytes) -> None:
        event = decoded(_decoder, text)
        if event is None:
            return
        message = event.message or event
        self._named(message.model)
        untrusted = fields(message.usage)
        counts = _counts(untrusted)
        self._counts = latest(self._counts, _without_noughts(counts) if event.type == "message_delta" else counts)
        self._beside = latest(self._beside, _Beside(usages=tuple(_spent_beside(untrusted)) or None))


def _counts(untrusted: dict[str, Any]) -> _Counts:
    writes = fields(untrusted.get("cache_creation"))
    return _Counts(
        uncached=tokens(untrusted.get("input_tokens")),
        output=tokens(untrusted.get("output_tokens")),
        cache_read=tokens(untrusted.get("cache_read_input_tokens")),
        cache_write=tokens(untrusted.get("cache_creation_input_tokens")),
        cache_write_5m=tokens(writes.get("ephemeral_5m_input_tokens")),
        cache_write_1h=tokens(writes.get("ephemeral_1h_input_tokens")),
        thinking=tokens(fields(untrusted.get("output_tokens_details")).get("thinking_tokens")),
    )


def _without_noughts(counts: _Counts) -> _Counts:
    return _Counts(**{field: getattr(counts, field) or None for field in counts.__struct_fields__})


def _spent_beside(untrusted: dict[str, Any]) -> Iterator[Usage]:
    iterations = untrusted.get("iterations")
    for entry in map(fields, iterations if isinstance(iterations, list) else ()):
        if entry.get("type") in _BESIDE:
            yield _usage(_counts(entry))


def _usage(counts: _Counts) -> Usage:
    short, long = cache_writes(counts.cache_write, counts.cache_write_5m, counts.cache_write_1h)
    return Usage(
        input_tokens=added(counts.uncached, counts.cache_read, short, long),
        output_tokens=counts.output,
        cache_read_tokens=counts.cache_read,
        cache_write_5m_tokens=short,
        cache_write_1h_tokens=long,
        reasoning_tokens=counts.thinking,
    )


def _together(*usages: Usage) -> Usage:
    return Usage(**{field: added(*(getattr(usage, field) for usage in usages)) for field in Usage.__struct_fields__})
