"""The one door to MCP's own SDK: a server of the session's tools, stateless, answering in JSON, both eras of MCP.

It takes a second to import and 45 MB to hold, so that it is imported when the first program asks, and not before.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from egressd.mcp.tools import SESSION, Tools
from proto.faults import Fault
from proto.reasons import REASONS
from proto.role.trace import version
from proto.tools import SHOWN

Message = MutableMapping[str, Any]
Asgi = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
"""What serves one HTTP request (ASGI 3): its scope, what receives the body, what sends the answer."""

_Context = ServerRequestContext[Any, Any]


@asynccontextmanager
async def serving(tools: Tools) -> AsyncIterator[Asgi]:
    """A server for the requests of every session, inside the block."""
    # What it would log of a request is a client's text, and goes through none of our own checks.
    logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
    manager = StreamableHTTPSessionManager(_server(tools), json_response=True, stateless=True)
    async with manager.run():
        yield manager.handle_request


def _server(tools: Tools) -> Server[dict[str, Any]]:
    async def list_tools(context: _Context, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        try:
            named = await tools.named(_session(context))
        except Fault as fault:
            raise MCPError(types.INTERNAL_ERROR, str(fault)) from None
        return types.ListToolsResult(tools=[_tool(name) for name in named if name in SHOWN])

    async def call_tool(context: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in SHOWN:
            return _result(REASONS["tool-unknown"], ok=False)
        answered = await tools.run(_session(context), params.name, params.arguments or {})
        return _result(answered.text, ok=answered.ok)

    async def no_prompts(_: _Context, __: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[])

    async def no_resources(_: _Context, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[])

    return Server(
        "boxmaker",
        version=version(),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=no_prompts,
        on_list_resources=no_resources,
    )


def _session(context: _Context) -> str:
    request = context.request
    assert request is not None  # noqa: S101  (every message comes in an HTTP request)
    session: str = request.scope[SESSION]
    return session


def _tool(name: str) -> types.Tool:
    shown = SHOWN[name]
    return types.Tool(name=name, description=shown.about, input_schema=shown.parameters)


def _result(text: str, *, ok: bool) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=not ok)
