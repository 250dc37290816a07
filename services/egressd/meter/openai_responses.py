"""OpenAI Responses: usage and model out of an answer, streamed (server-sent events) or one JSON value.

Source: the OpenAI API reference, "Responses" and "Streaming events": a `response` with its `model` stands in
`response.created` and `response.in_progress` (no usage yet) and in `response.completed`, `response.incomplete` and
`response.failed`, with `usage.input_tokens`, `input_tokens_details` (`cached_tokens`, `cache_write_tokens`,
`cache_write_tokens_details`), `output_tokens` and `output_tokens_details.reasoning_tokens`. The input has what is
cached in it, the output the reasoning. The cache keeps for 30 minutes or for 12 hours.
"""

from typing import Any, Final

import msgspec

from egressd.meter.reading import Reading, decoded
from egressd.meter.usage import Usage, cache_writes, fields, latest, tokens, whole_output


class _Response(msgspec.Struct):
    model: Any = None
    usage: Any = None


class _Event(_Response):
    response: _Response | None = None


class _Counts(msgspec.Struct, frozen=True, kw_only=True):
    prompt: int | None = None
    output: int | None = None
    total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_30m: int | None = None
    cache_write_12h: int | None = None
    reasoning: int | None = None


_decoder: Final = msgspec.json.Decoder(_Event)


class OpenAiResponses(Reading):
    """The meter of one answer."""

    def __init__(self) -> None:
        super().__init__(b"usage", b"model")
        self._counts = _Counts()

    @property
    def usage(self) -> Usage:
        """The tokens reported so far."""
        counts = self._counts
        short, long = cache_writes(counts.cache_write, counts.cache_write_30m, counts.cache_write_12h)
        return Usage(
            input_tokens=counts.prompt,
            output_tokens=whole_output(counts.output, counts.reasoning, counts.prompt, counts.total),
            cache_read_tokens=counts.cache_read,
            cache_write_5m_tokens=short,
            cache_write_1h_tokens=long,
            reasoning_tokens=counts.reasoning,
        )

    def _take(self, text: bytes) -> None:
        event = decoded(_decoder, text)
        if event is None:
            return
        response = event.response or event
        self._named(response.model)
        self._counts = latest(self._counts, _counts(fields(response.usage)))


def _counts(untrusted: dict[str, Any]) -> _Counts:
    prompt = fields(untrusted.get("input_tokens_details"))
    writes = fields(prompt.get("cache_write_tokens_details"))
    return _Counts(
        prompt=tokens(untrusted.get("input_tokens")),
        output=tokens(untrusted.get("output_tokens")),
        total=tokens(untrusted.get("total_tokens")),
        cache_read=tokens(prompt.get("cached_tokens")),
        cache_write=tokens(prompt.get("cache_write_tokens")),
        cache_write_30m=tokens(writes.get("ttl_30m_tokens")),
        cache_write_12h=tokens(writes.get("ttl_12h_tokens")),
        reasoning=tokens(fields(untrusted.get("output_tokens_details")).get("reasoning_tokens")),
    )
