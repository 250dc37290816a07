"""What is relayed: for each API a closed table of method and path. Everything else is 404.

A path is compared as it came: nothing is decoded, folded or taken apart beyond what the tables say, so that no path
means one thing here and another at the provider.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

from egressd.meter.anthropic import Anthropic
from egressd.meter.code_assist import CodeAssist
from egressd.meter.gemini import Gemini
from egressd.meter.openai_chat import OpenAiChat
from egressd.meter.openai_responses import OpenAiResponses
from egressd.meter.usage import Meter
from proto.rules import Api, ModelApi

What = Literal["call", "read", "here"]
"""A `call` of a model, which is metered; a `read`, which spends nothing; what is answered `here`."""

_MODEL: Final = r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}"
_VENDOR_MODEL: Final = rf"{_MODEL}(?:/{_MODEL})?"
"""A model's name as it stands in a path; gateways put a vendor before it."""


class Route(NamedTuple):
    """What a method and a path mean; `model` is the one in the path, `target` another path to ask for, if any."""

    api: ModelApi
    what: What
    model: str = ""
    target: str | None = None

    @property
    def meter(self) -> Callable[[], Meter] | None:
        """What makes the meter of an answer; None for a route that spends nothing."""
        return METERS[self.api] if self.what == "call" else None


METERS: Final[dict[ModelApi, Callable[[], Meter]]] = {
    "openai-chat": OpenAiChat,
    "openai-responses": OpenAiResponses,
    "anthropic": Anthropic,
    "gemini": Gemini,
    "code-assist": CodeAssist,
}


def _table(*rows: tuple[What, str, str]) -> tuple[tuple[What, str, re.Pattern[str]], ...]:
    return tuple((what, method, re.compile(pattern)) for what, method, pattern in rows)


_MODELS: Final[tuple[tuple[What, str, str], ...]] = (
    ("read", "GET", r"/v1/models"),
    # Some put a variant behind a model's name, such as `:free`.
    ("read", "GET", rf"/v1/models/{_VENDOR_MODEL}(?::[A-Za-z0-9._-]{{1,64}})?"),
)
_GEMINI_MODEL: Final = rf"/v1(?:beta)?/models/(?P<model>{_VENDOR_MODEL})"
_CODE_ASSIST: Final = r"/v1internal"

ROUTES: Final[dict[ModelApi, tuple[tuple[What, str, re.Pattern[str]], ...]]] = {
    "openai-chat": _table(("call", "POST", r"/v1/chat/completions"), *_MODELS),
    "openai-responses": _table(
        ("call", "POST", r"/v1/responses"),
        *_MODELS,
        # Muse Code asks the origin of its base URL for its catalog before anything else.
        ("read", "GET", r"/muse-code/models"),
    ),
    "anthropic": _table(
        ("call", "POST", r"/v1/messages"),
        ("read", "POST", r"/v1/messages/count_tokens"),
        *_MODELS,
    ),
    "gemini": _table(
        ("call", "POST", rf"{_GEMINI_MODEL}:(?:generateContent|streamGenerateContent)"),
        ("read", "POST", rf"{_GEMINI_MODEL}:countTokens"),
        ("read", "GET", _GEMINI_MODEL),
        ("read", "GET", r"/v1(?:beta)?/models"),
    ),
    "code-assist": _table(
        ("call", "POST", rf"{_CODE_ASSIST}:(?:generateContent|streamGenerateContent)"),
        # What Gemini CLI asks beside its calls (packages/core/src/code_assist/server.ts of google-gemini/gemini-cli).
        ("read", "POST", rf"{_CODE_ASSIST}:(?:loadCodeAssist|onboardUser|countTokens)"),
        ("read", "POST", rf"{_CODE_ASSIST}:(?:retrieveUserQuota|listExperiments|fetchAdminControls)"),
        # Not its counterpart `set…`: what Google may keep of all that the owner does is not for a session to say.
        ("read", "GET", rf"{_CODE_ASSIST}:getCodeAssistGlobalUserSetting"),
        ("read", "GET", rf"{_CODE_ASSIST}/operations/[A-Za-z0-9._-]{{1,128}}"),
    ),
}
"""By API: what it is, the method, and the whole path."""

HERE: Final = frozenset({("HEAD", "/api/hello"), ("GET", "/"), ("HEAD", "/")})
"""What clients ask to see whether somebody is there (Claude Code, Grok Build); answered without asking anybody."""
_CATALOG: Final = ("GET", "/muse-code/models")

_PREFIXES: Final[tuple[tuple[str, Api], ...]] = (
    ("/v1internal", "code-assist"),
    ("/v1beta/", "gemini"),
    ("/v1/messages", "anthropic"),
    ("/v1/responses", "openai-responses"),
    ("/v1/chat/", "openai-chat"),
)


def route(apis: Sequence[Api], method: str, path: str, quirks: Sequence[str] = ()) -> Route | None:
    """The route of a method and a path without its query at a destination that answers some APIs, or None."""
    models = [api for api in apis if api != "mattermost"]
    if not models:
        return None
    if (method, path) in HERE:
        return Route(models[0], "here")
    if "models-catalog" in quirks and (method, path) == _CATALOG:
        return Route(models[0], "read", target="/v1/models")
    for api in models:
        for what, wanted, pattern in ROUTES[api]:
            if method == wanted and (found := pattern.fullmatch(path)):
                return Route(api, what, found.groupdict().get("model") or "")
    return None


def api_of(path: str, apis: Sequence[Api]) -> Api:
    """The API whose shape a refusal of a path has: the path's own, or else the destination's first."""
    found = next((api for prefix, api in _PREFIXES if path.startswith(prefix)), None)
    if found is not None and (found in apis or not apis):
        return found
    return apis[0] if apis else "openai-chat"
