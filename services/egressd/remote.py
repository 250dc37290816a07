"""Addresses in a request that the provider would follow: an image, a file or a film by its URL.

Whoever writes such an address decides which server the provider asks, and with which words: a way out past every
other check. Each counts as the provider's `web_fetch`. Only places that mean an address are looked at, never what a
tool was given or gave back as JSON.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from egressd.bodies import Object
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


def parts_of(api: ModelApi, body: Object) -> list[Object]:
    """Every object of a request's conversation, without those that are a tool's own JSON."""
    found: list[Object] = []
    waiting = _under(_CONVERSATION[api], body)
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, Object):
            found.append(one)
            waiting += _under(one.by_name.keys() - _JSON_OF_TOOLS, one)
    return found


def follows(api: ModelApi, parts: Sequence[Object]) -> bool:
    """Whether a conversation holds an address that the provider would follow."""
    return any(_leads_out(api, part) for part in parts)


def recalls(body: Object, parts: Sequence[Object]) -> bool:
    """Whether a request names what the provider keeps, a conversation or a file: how much that is, it does not say."""
    return any(_under(_KEPT, body)) or any(
        any(_under(_KEPT_FILES, part)) or _REFERENCE in part.values() for part in parts
    )


def _under(names: Iterable[str], part: Object) -> list[Any]:
    """The values of the fields of some folded names."""
    return [value for name in names for value in part.by_name.get(name, ())]


def _leads_out(api: ModelApi, part: Object) -> bool:
    match api:
        case "anthropic":
            return "url" in part.by_name.get("type", ())
        case "openai-chat" | "openai-responses":
            return any(map(_is_away, _under(_OPENAI, part))) or any(
                isinstance(value, str) and "://" in value[:64] for value in _under(_OPENAI_CONTENT, part)
            )
        case "gemini" | "code-assist":
            return not all(map(_is_own_file, part.by_name.get("fileuri", ())))


def _is_away(value: Any) -> bool:
    """Whether a value is an address, or an object or a list with one, that is not the content itself."""
    if isinstance(value, Object):
        return any(map(_is_away, value.by_name.get("url", ())))
    if isinstance(value, list):
        return any(map(_is_away, value))
    return isinstance(value, str) and value[:64].strip().lower()[: len(_INLINE)] != _INLINE and bool(value)


def _is_own_file(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(_GOOGLE_FILES)
