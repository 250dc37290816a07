"""Answers that a real gateway gave: LiteLLM 1.108.7 in front of a server of chat completions, byte for byte.

`tests/peers` runs it; these are for where it is not. Behind it four words were said, and nine tokens asked.
"""

from pathlib import Path

from egressd.meter.usage import Usage
from proto.rules import ModelApi
from tests.egressd.streams.shape import Stream

_FOLDER = Path(__file__).parent


def _recorded(api: ModelApi, model: str | None, usage: Usage) -> Stream:
    name = f"litellm-{api}"
    return Stream(name=name, api=api, body=(_FOLDER / f"{name}.sse").read_bytes(), usage=usage, model=model)


STREAMS: list[Stream] = [
    _recorded("openai-chat", "fast-1", Usage(input_tokens=9, output_tokens=4, reasoning_tokens=0)),
    # Its first event says that nothing was cached.
    _recorded(
        "anthropic", "fast-1", Usage(input_tokens=9, output_tokens=4, cache_read_tokens=0, cache_write_5m_tokens=0)
    ),
    _recorded("gemini", None, Usage(input_tokens=9, output_tokens=4)),
]
