"""What is relayed: for each API a closed table of method and path. Everything else is 404."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from egressd.meter.openai_chat import OpenAiChat
from egressd.meter.usage import Meter


class Route(NamedTuple):
    """How a call of a route is metered; None for one that spends nothing."""

    meter: Callable[[], Meter] | None


ROUTES: Final[dict[str, dict[tuple[str, str], Route]]] = {
    "openai-chat": {
        ("POST", "/v1/chat/completions"): Route(meter=OpenAiChat),
        ("GET", "/v1/models"): Route(meter=None),
    },
}
"""By API, then by method and path. A path is compared as it came: nothing is decoded or folded."""


def route(apis: Sequence[str], method: str, path: str) -> Route | None:
    """The route of a method and a path without its query at a destination that answers some APIs, or None."""
    return next((found for api in apis if (found := ROUTES.get(api, {}).get((method, path)))), None)
