"""Tools that a request names and the provider runs: web search, code execution, remote MCP. An egress of their own.

For each API the tools that run at the client are a closed list; those that are known to run at the provider have a name
for `hosted_tools`; any other type is refused under its own name, which `hosted_tools` may hold too.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from egressd.bodies import Object, field, folded, object_of
from egressd.remote import WEB_FETCH, Remote
from proto.escape import clip
from proto.faults import Fault
from proto.rules import ModelApi

_LONGEST_NAME_CHARS: Final = 80
_DATED: Final = re.compile(r"(?P<name>[a-z0-9_]+?)_20[0-9]{6}\Z")
"""Anthropic puts the day of a tool's version behind its type: web_search_20250305."""

_ANTHROPIC_CLIENT: Final = frozenset({
    "custom", "bash", "text_editor", "computer", "memory", "tool_search_tool_regex", "tool_search_tool_bm25",
    "tool_search_tool",
})  # fmt: skip
"""platform.claude.com "Tool use": run by the client; the search for tools reads nothing but the request's own tools."""
_ANTHROPIC_HOSTED: Final = {
    "web_search": "web_search",
    "web_fetch": "web_fetch",
    "code_execution": "code_execution",
    "mcp_toolset": "mcp",
}
_OPENAI_CLIENT: Final = frozenset({
    "function", "custom", "local_shell", "apply_patch", "computer", "computer_use_preview", "tool_search",
})  # fmt: skip
"""OpenAI's API reference, "Responses", `tools`: the client runs these and gives their output back."""
_OPENAI_HOSTED: Final = {
    "web_search": "web_search",
    "web_search_2025_08_26": "web_search",
    "web_search_preview": "web_search",
    "web_search_preview_2025_03_11": "web_search",
    "file_search": "file_search",
    "code_interpreter": "code_execution",
    "image_generation": "image_generation",
    "mcp": "mcp",
    # docs.x.ai "Tools overview".
    "live_search": "web_search",
    "x_search": "x_search",
    "code_execution": "code_execution",
    "collections_search": "file_search",
    # console.groq.com/docs "Built-in tools".
    "browser_search": "web_search",
}
_OPENAI_FIELDS: Final = {
    "websearchoptions": "web_search",
    "searchparameters": "web_search",
    "enablesearch": "web_search",
    "plugins": "plugins",
    "prompt": "stored_prompt",
    "promptid": "stored_prompt",
    "vectorstoreids": "file_search",
    "datasources": "file_search",
    "extrabody": "extra_body",
}
"""Fields beside `tools`: OpenAI's and xAI's search, DashScope's, OpenRouter's plugins, a prompt kept at OpenAI or in
LiteLLM's proxy (which may name tools of its own), the stores that the proxy and Azure search, and what the proxy puts
into the request that it makes of this one."""
_SEARCHING_MODEL: Final = re.compile(
    r"-search-(?:preview|api)|:online\Z|(?:\A|/)(?:compound|sonar)(?:-|\Z)", re.IGNORECASE
)
"""Models that search by themselves: OpenAI's gpt-…-search-preview, OpenRouter's :online, Groq's, Perplexity's."""
_GEMINI_CLIENT: Final = frozenset({"functiondeclarations", "computeruse"})
_GEMINI_HOSTED: Final = {
    "googlesearch": "web_search",
    "googlesearchretrieval": "web_search",
    "enterprisewebsearch": "web_search",
    "urlcontext": "web_fetch",
    "codeexecution": "code_execution",
    "filesearch": "file_search",
    "retrieval": "file_search",
    "googlemaps": "google_maps",
    "mcpservers": "mcp",
}
"""ai.google.dev, "Caching", `Tool`: what a tool is stands in the name of its one field."""


def hosted(api: ModelApi, body: Object, model: str, elsewhere: Remote) -> tuple[str, ...]:
    """The names of the tools run by the provider that a request names or needs, each once, sorted.

    `elsewhere` is what its conversation refers to.

    Raises:
        Fault: `request-invalid`: tools have not their shape.

    """
    match api:
        case "anthropic":
            found = _anthropic(body)
        case "openai-chat" | "openai-responses":
            found = _openai(body, model)
        case "gemini":
            found = _gemini(body)
        case "code-assist":
            found = _gemini(object_of(body, "request"))
    return tuple(sorted({*found, WEB_FETCH} if elsewhere.follows else {*found}))


def check(names: Sequence[str], allowed: Sequence[str], destination: str) -> None:
    """Let pass what a destination allows.

    Raises:
        Fault: `hosted-tool`.

    """
    refused = [name for name in names if name not in allowed]
    if refused:
        raise Fault(
            "hosted-tool",
            f"refused: the request names {', '.join(refused)}, which the provider runs; "
            f"hosted_tools of [destinations.{destination}] does not name it",
        )


def _anthropic(body: Object) -> Iterator[str]:
    for tool in _tools(body):
        kind = field(tool, "type")
        if kind is None:
            continue
        dated = _DATED.match(kind) if isinstance(kind, str) else None
        yield from _sorted_out(dated["name"] if dated else kind, _ANTHROPIC_CLIENT, _ANTHROPIC_HOSTED)
    if field(body, "mcpservers"):
        yield "mcp"
    if field(body, "container"):
        yield "code_execution"


def _openai(body: Object, model: str) -> Iterator[str]:
    for tool in _tools(body):
        yield from _openai_tool(tool)
    for name in _OPENAI_FIELDS.keys() & body.by_name.keys():
        value = field(body, name)
        off = name == "searchparameters" and isinstance(value, Object) and field(value, "mode") == "off"
        # An empty object asks for the search as it is by default.
        if value not in (None, False, []) and not off:
            yield _OPENAI_FIELDS[name]
    if _SEARCHING_MODEL.search(model):
        yield "web_search"


def _openai_tool(tool: Object) -> Iterator[str]:
    kind = field(tool, "type")
    if kind == "namespace":
        # Codex's name for the tools of one MCP server, which it runs itself.
        for inner in _tools(tool):
            yield from _openai_tool(inner)
    elif kind == "shell":
        environment = field(tool, "environment")
        local = isinstance(environment, Object) and field(environment, "type") == "local"
        if not local:
            yield "code_execution"
    else:
        yield from _sorted_out(kind, _OPENAI_CLIENT, _OPENAI_HOSTED)


def _gemini(body: Object) -> Iterator[str]:
    for tool in _tools(body):
        for key in tool:
            yield from _sorted_out(folded(key), _GEMINI_CLIENT, _GEMINI_HOSTED)
    if field(body, "cachedcontent"):
        # What is kept at Google has tools of its own, and a prompt of any length.
        yield "cached_content"


def _tools(body: Object) -> list[Object]:
    found = field(body, "tools")
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(tool, Object) for tool in found):
        raise Fault("request-invalid", "tools in the body of the request are not a list of objects")
    return found


def _sorted_out(kind: Any, client: frozenset[str], known: dict[str, str]) -> Iterator[str]:
    if not isinstance(kind, str):
        raise Fault("request-invalid", "a tool in the body of the request has no type")
    if kind not in client:
        yield known.get(kind) or clip(kind[:_LONGEST_NAME_CHARS], _LONGEST_NAME_CHARS)
