"""Gemini generateContent and streamGenerateContent: usage and model out of an answer.

An answer is one object; a streamed one is server-sent events (`?alt=sse`) or an array whose members come one by one.
Each part has the usage so far, which replaces the one before.

Source: the Gemini API reference, "GenerateContentResponse": `modelVersion` and `usageMetadata` with `promptTokenCount`
(with `cachedContentTokenCount` in it), `toolUsePromptTokenCount` (results of tools that Google ran, given to the model:
more prompt), `candidatesTokenCount` and `thoughtsTokenCount`; `totalTokenCount` is the sum of all but the cached.
"""

from typing import Any, Final

import msgspec

from egressd.meter.reading import Reading, decoded
from egressd.meter.usage import Usage, added, fields, latest, tokens


class Part(msgspec.Struct):
    """What is read of an answer, or of a part of a streamed one."""

    modelVersion: Any = None  # noqa: N815  (as on the wire)
    usageMetadata: Any = None  # noqa: N815


class _Counts(msgspec.Struct, frozen=True, kw_only=True):
    prompt: int | None = None
    of_tools: int | None = None
    cached: int | None = None
    candidates: int | None = None
    thoughts: int | None = None
    total: int | None = None


_decoder: Final = msgspec.json.Decoder(Part)


class Gemini(Reading):
    """The meter of one answer."""

    def __init__(self) -> None:
        super().__init__(b"usageMetadata", b"modelVersion")
        self._counts = _Counts()

    @property
    def usage(self) -> Usage:
        """The tokens reported so far."""
        counts = self._counts
        return Usage(
            input_tokens=added(counts.prompt, counts.of_tools),
            output_tokens=_output(counts),
            cache_read_tokens=counts.cached,
            reasoning_tokens=counts.thoughts,
        )

    def _take(self, text: bytes) -> None:
        part = self._part(text)
        if part is not None:
            self._named(part.modelVersion)
            self._counts = latest(self._counts, _counts(fields(part.usageMetadata)))

    def _part(self, text: bytes) -> Part | None:
        return decoded(_decoder, text)


def _counts(untrusted: dict[str, Any]) -> _Counts:
    return _Counts(
        prompt=tokens(untrusted.get("promptTokenCount")),
        of_tools=tokens(untrusted.get("toolUsePromptTokenCount")),
        cached=tokens(untrusted.get("cachedContentTokenCount")),
        candidates=tokens(untrusted.get("candidatesTokenCount")),
        thoughts=tokens(untrusted.get("thoughtsTokenCount")),
        total=tokens(untrusted.get("totalTokenCount")),
    )


def _output(counts: _Counts) -> int | None:
    """The candidates and the thoughts, unless the total says that the thoughts were counted among the candidates.

    Some of Google's models do so (BerriAI/litellm#10141). Of a prompt that was blocked, the total says that nothing was
    answered.
    """
    if counts.candidates is None and counts.thoughts is None and counts.prompt is not None:
        return 0 if counts.total == added(counts.prompt, counts.of_tools) else None
    if counts.candidates and counts.total == added(counts.prompt, counts.of_tools, counts.candidates):
        return counts.candidates
    return added(counts.candidates, counts.thoughts)
