"""The meter of each API, and a reading of a body that is cut."""

import itertools
from collections.abc import Callable, Iterable

from egressd.meter.anthropic import Anthropic
from egressd.meter.code_assist import CodeAssist
from egressd.meter.gemini import Gemini
from egressd.meter.openai_chat import OpenAiChat
from egressd.meter.openai_responses import OpenAiResponses
from egressd.meter.usage import Meter, Usage

METERS: dict[str, Callable[[], Meter]] = {
    "openai-chat": OpenAiChat,
    "openai-responses": OpenAiResponses,
    "anthropic": Anthropic,
    "gemini": Gemini,
    "code-assist": CodeAssist,
}


def pieces(body: bytes, cuts: Iterable[int]) -> list[bytes]:
    """A body cut at places; a place behind its end is taken from its beginning."""
    places = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    return [body[start:stop] for start, stop in itertools.pairwise(places)]


def read(api: str, body: bytes, cuts: Iterable[int] = ()) -> tuple[Usage, str | None]:
    """The usage and the model that a meter finds in a body that comes cut."""
    meter = METERS[api]()
    for piece in pieces(body, cuts):
        meter.feed(piece)
    meter.end()
    return meter.usage, meter.model
