"""Addresses in a request that the provider would follow: an image, a file or a film by its URL.

Whoever writes such an address decides which server the provider asks, and with which words: a way out past every
other check. Each counts as the provider's `web_fetch`. Only places that mean an address are looked at, never what a
tool was given or gave back as JSON.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from egressd.bodies import Object, folded
from proto.rules import ModelApi

WEB_FETCH: Final = "web_fetch"
_INLINE: Final = "data:"
_OPENAI: Final = frozenset({"imageurl", "fileurl", "videourl", "audiourl", "video"})
"""Of a part of a message or of an item: OpenAI's API reference, "Chat" and "Responses"; `video_url` is DashScope's."""
_KEPT: Final = frozenset({"previousresponseid", "conversation", "prompt", "cachedcontent"})
_KEPT_FILES: Final = frozenset({"fileid", "fileuri"})
_REFERENCE: Final = "item_reference"
"""What is kept at OpenAI and Google from before, and a request can name."""
_OPENAI_CONTENT: Final = frozenset({"data", "filedata", "fileid"})
"""Content, or the name of a file that was uploaded; DashScope takes an address for a sound, LiteLLM one for a file."""
_GOOGLE_FILES: Final = "https://generativelanguage.googleapis.com/"
"""A file that was uploaded to Gemini's own Files API is asked for nowhere else."""
_CONVERSATION: Final[dict[ModelApi, frozenset[str]]] = {
    "anthropic": frozenset({"messages", "system"}),
    "openai-chat": frozenset({"messages"}),
    "openai-responses": frozenset({"input", "instructions"}),
    "gemini": frozenset({"contents", "systeminstruction"}),
    "code-assist": frozenset({"contents", "systeminstruction"}),
}
_JSON_OF_TOOLS: Final = frozenset({"input", "args", "arguments", "response"})
"""What a tool was given, or gave back as JSON, inside a conversation."""
_LOOKED_AT: Final = _OPENAI | _OPENAI_CONTENT | _KEPT_FILES | {"type"}


class Remote(NamedTuple):
    """What a request asks the provider to look at besides the request itself.

    `follows`: its conversation holds an address that the provider would follow. `recalls`: it names what the provider
    keeps, a conversation or a file; how much that is, it does not say.
    """

    follows: bool
    recalls: bool


def remote(api: ModelApi, body: Object) -> Remote:
    """What of a request is elsewhere."""
    members = list(_members(api, body))
    return Remote(
        follows=any(_leads_out(api, name, value) for name, value in members),
        recalls=any(value for name in _KEPT for value in body.by_name.get(name, ()))
        or any((value and name in _KEPT_FILES) or value == _REFERENCE for name, value in members),
    )


def _members(api: ModelApi, body: Object) -> Iterator[tuple[str, Any]]:
    """The members that are looked at, by their folded names, of all objects of a conversation but a tool's own JSON.

    Conversations are long: each is walked once, and nothing is made of what is not looked at.
    """
    waiting = [value for name in _CONVERSATION[api] for value in body.by_name.get(name, ())]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, Object):
            for key, value in one.items():
                name = folded(key)
                if name not in _JSON_OF_TOOLS:
                    waiting.append(value)
                if name in _LOOKED_AT or value == _REFERENCE:
                    yield name, value


def _leads_out(api: ModelApi, name: str, value: Any) -> bool:
    match api:
        case "anthropic":
            return name == "type" and bool(value == "url")
        case "openai-chat" | "openai-responses":
            return (name in _OPENAI and _is_away(value)) or (
                name in _OPENAI_CONTENT and isinstance(value, str) and "://" in value[:64]
            )
        case "gemini" | "code-assist":
            return name == "fileuri" and not _is_own_file(value)


def _is_away(value: Any) -> bool:
    """Whether a value is an address, or an object or a list with one, that is not the content itself."""
    if isinstance(value, Object):
        return any(_is_away(inner) for key, inner in value.items() if folded(key) == "url")
    if isinstance(value, list):
        return any(map(_is_away, value))
    return isinstance(value, str) and value[:64].strip().lower()[: len(_INLINE)] != _INLINE and bool(value)


def _is_own_file(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(_GOOGLE_FILES)
