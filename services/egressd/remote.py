"""Addresses in a request that the provider would follow: an image, a file or a film by its URL.

Whoever writes such an address decides which server the provider asks, and with which words: a way out past every
other check. Each counts as the provider's `web_fetch`. Only places that mean an address are looked at, never what a
tool was given or gave back as JSON.
"""

from collections.abc import Iterator
from typing import Any, Final

from egressd.bodies import Object, folded
from proto.rules import ModelApi

NAME: Final = "web_fetch"
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


def follows(api: ModelApi, body: Object) -> bool:
    """Whether a request holds an address that the provider would follow."""
    return any(_leads_out(api, part) for part in _parts(_told(api, body)))


def recalls(api: ModelApi, body: Object) -> bool:
    """Whether a request names what the provider keeps, a conversation or a file: how much that is, it does not say."""
    if any(value and folded(key) in _KEPT for key, value in body.items()):
        return True
    return any(
        (value and folded(key) in _KEPT_FILES) or value == _REFERENCE
        for part in _parts(_told(api, body))
        for key, value in part.items()
    )


def _told(api: ModelApi, body: Object) -> list[Any]:
    names = _CONVERSATION[api]
    return [value for key, value in body.items() if folded(key) in names]


def _parts(value: Any) -> Iterator[Object]:
    """Every object of a conversation, without those that are a tool's own JSON."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            yield one
            waiting += [inner for key, inner in one.items() if folded(key) not in _JSON_OF_TOOLS]


def _leads_out(api: ModelApi, part: Object) -> bool:
    match api:
        case "anthropic":
            return any(folded(key) == "type" and value == "url" for key, value in part.items())
        case "openai-chat" | "openai-responses":
            names = {folded(key): value for key, value in part.items()}
            return any(_is_away(value) for name, value in names.items() if name in _OPENAI) or any(
                isinstance(value, str) and "://" in value[:64]
                for name, value in names.items()
                if name in _OPENAI_CONTENT
            )
        case "gemini" | "code-assist":
            return any(folded(key) == "fileuri" and not _is_own_file(value) for key, value in part.items())


def _is_away(value: Any) -> bool:
    """Whether a value is an address, or an object or a list with one, that is not the content itself."""
    if isinstance(value, dict):
        return any(_is_away(inner) for key, inner in value.items() if folded(key) == "url")
    if isinstance(value, list):
        return any(_is_away(inner) for inner in value)
    return isinstance(value, str) and value[:64].strip().lower()[: len(_INLINE)] != _INLINE and bool(value)


def _is_own_file(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(_GOOGLE_FILES)
