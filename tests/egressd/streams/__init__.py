"""Recorded-shape streams: answers of every API as its servers send them, with the usage that is in each."""

from tests.egressd.streams import anthropic, gemini, openai_chat, openai_responses, recorded
from tests.egressd.streams.shape import Stream

STREAMS: list[Stream] = [
    *openai_chat.STREAMS,
    *openai_responses.STREAMS,
    *anthropic.STREAMS,
    *gemini.STREAMS,
    *recorded.STREAMS,
]

__all__ = ["STREAMS", "Stream"]
