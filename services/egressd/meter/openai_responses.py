"""OpenAI Responses: usage and model out of an answer, streamed (server-sent events) or one JSON value.

Source: the OpenAI API reference, "Responses" and "Streaming events": a `response` with its `model` stands in
`response.created` and `response.in_progress` (no usage yet) and in `response.completed`, `response.incomplete` and
`response.failed`, with `usage.input_tokens`, `input_tokens_details` (`cached_tokens`, `cache_write_tokens`,
`cache_write_tokens_details`), `output_tokens` and `output_tokens_details.reasoning_tokens`. The input has what is
cached in it, the output the reasoning. The cache keeps for 30 minutes or for 12 hours.
"""

from typing import Any, Final

import msgspec

from egressd.meter.openai import Counts
from egressd.meter.reading import Reading, decoded
from egressd.meter.usage import Usage, fields, latest, tokens


class _Response(msgspec.Struct):
    model: Any = None
    usage: Any = None


class _Event(_Response):
    response: _Response | None = None


_decoder: Final = msgspec.json.Decoder(_Event)


class OpenAiResponses(Reading):
    """The meter of one answer."""

    def __init__(self) -> None:
        super().__init__(b"usage", b"model")
        self._counts = Counts()

    @property
    def usage(self) -> Usage:
        """The tokens reported so far."""
        return self._counts.usage

    def _take(self, text: bytes) -> None:
        event = decoded(_decoder, text)
        if event is None:
            return
        response = event.response or event
        self._named(response.model)
        self._counts = latest(self._counts, _counts(fields(response.usage)))


def _counts(untrusted: dict[str, Any]) -> Counts:
    prompt = fields(untrusted.get("input_tokens_details"))
    writes = fields(prompt.get("cache_write_tokens_details"))
    return Counts(
        prompt=tokens(untrusted.get("input_tokens")),
        output=tokens(untrusted.get("output_tokens")),
        total=tokens(untrusted.get("total_tokens")),
        cache_read=tokens(prompt.get("cached_tokens")),
        cache_write=tokens(prompt.get("cache_write_tokens")),
        cache_write_short=tokens(writes.get("ttl_30m_tokens")),
        cache_write_long=tokens(writes.get("ttl_12h_tokens")),
        reasoning=tokens(fields(untrusted.get("output_tokens_details")).get("reasoning_tokens")),
    )
