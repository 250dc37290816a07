"""OpenAI chat completions: usage and model out of an answer, streamed (server-sent events) or one JSON value.

Sources. The OpenAI API reference, "Chat": `usage.prompt_tokens`, `usage.completion_tokens`, `prompt_tokens_details`
(`cached_tokens`, `cache_write_tokens`) and `completion_tokens_details.reasoning_tokens`; the prompt has what is cached
in it, the completion the reasoning. Other servers of this API name the same things otherwise:

- DeepSeek ("Context Caching"): `prompt_cache_hit_tokens`
- Moonshot: `cached_tokens`; a streamed usage stands in the choice
- Groq: a streamed usage stands in `x_groq`
- DashScope ("Context Cache"): `prompt_tokens_details.cache_creation_input_tokens`, all of it for five minutes
- LiteLLM's proxy (`litellm/types/utils.py`): `cache_read_input_tokens`, `cache_creation_input_tokens`, and in the
  details `cache_creation_tokens`, `cache_creation_token_details.ephemeral_1h_input_tokens`
- xAI: the reasoning stands beside the completion (`usage.whole_output`)
"""

from typing import Any, Final

import msgspec

from egressd.meter.openai import Counts
from egressd.meter.reading import Reading, decoded
from egressd.meter.usage import Usage, fields, first, latest, tokens


class _Chunk(msgspec.Struct):
    model: Any = None
    usage: Any = None
    x_groq: Any = None
    choices: Any = None


_decoder: Final = msgspec.json.Decoder(_Chunk)


class OpenAiChat(Reading):
    """The meter of one answer."""

    def __init__(self) -> None:
        super().__init__(b"usage", b"model")
        self._counts = Counts()

    @property
    def usage(self) -> Usage:
        """The tokens reported so far."""
        return self._counts.usage

    def _take(self, text: bytes) -> None:
        chunk = decoded(_decoder, text)
        if chunk is None:
            return
        self._named(chunk.model)
        for untrusted in (_of_choices(chunk.choices), fields(chunk.x_groq).get("usage"), chunk.usage):
            # Most chunks have none.
            if counted := fields(untrusted):
                self._counts = latest(self._counts, _counts(counted))


def _of_choices(untrusted: Any) -> Any:
    choices = untrusted if isinstance(untrusted, list) else []
    return next((usage for choice in choices if (usage := fields(choice).get("usage"))), None)


def _counts(untrusted: dict[str, Any]) -> Counts:
    prompt = fields(untrusted.get("prompt_tokens_details"))
    return Counts(
        prompt=tokens(untrusted.get("prompt_tokens")),
        output=tokens(untrusted.get("completion_tokens")),
        total=tokens(untrusted.get("total_tokens")),
        cache_read=first(
            prompt.get("cached_tokens"),
            untrusted.get("prompt_cache_hit_tokens"),
            untrusted.get("cache_read_input_tokens"),
            untrusted.get("cached_tokens"),
        ),
        cache_write=first(
            prompt.get("cache_write_tokens"),
            prompt.get("cache_creation_tokens"),
            prompt.get("cache_creation_input_tokens"),
            untrusted.get("cache_creation_input_tokens"),
        ),
        cache_write_long=tokens(fields(prompt.get("cache_creation_token_details")).get("ephemeral_1h_input_tokens")),
        reasoning=tokens(fields(untrusted.get("completion_tokens_details")).get("reasoning_tokens")),
    )
