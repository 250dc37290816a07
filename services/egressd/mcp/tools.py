"""The tools of a session, asked of brokerd over `run/egress-broker/tools.sock`: which there are, and the calls.

Each HTTP request is a call of its own, with an id of its own. MCP's ids are a client's, begin at 1 in every process and
name no call across two of them; a client that asks again, asks for it once more.
"""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio

from proto.escape import clip
from proto.faults import Fault
from proto.messages.broker import ApprovalWanted, ToolRequest, ToolResponse, ToolsList, ToolsListReply
from proto.reasons import REASONS
from proto.role.call import call, stream
from proto.role.clock import Clock, parse

SESSION: Final = "boxmaker.session"
"""Where a request's scope says whose it is: the session of the socket, never an id that a client gives."""
_UNREACHABLE: Final = "brokerd-unreachable"
_CONNECT_WITHIN_S: Final = 2.0
_LIST_S: Final = 10.0


_Answer = ApprovalWanted | ToolResponse


class Answered(NamedTuple):
    """The result of a call, or why there is none (`ok` false)."""

    ok: bool
    text: str


class Tools:
    """The way to brokerd."""

    def __init__(self, socket: Path, call_s: float, clock: Clock) -> None:
        """`call_s` is how long a call may take that waits for nobody."""
        self._socket = socket
        self._call_s = call_s
        self._clock = clock

    async def named(self, session: str) -> list[str]:
        """The names of the tools that a session may call.

        Raises:
            Fault: `brokerd-unreachable`, `session-not-open`.

        """
        reply: ToolsListReply = await call(
            self._socket,
            ToolsList(session=session),
            ToolsListReply,
            timeout_s=_LIST_S,
            connect_within_s=_CONNECT_WITHIN_S,
            unreachable=_UNREACHABLE,
        )
        return reply.tools

    async def run(self, session: str, tool: str, arguments: dict[str, Any]) -> Answered:
        """Have a call decided and run; where the owner is asked, his answer is waited for."""
        try:
            request = ToolRequest(session=session, call=f"mcp-{secrets.token_hex(8)}", tool=tool, arguments=arguments)
            return await self._run(request)
        except (ValueError, OverflowError) as error:
            # JSON's numbers and texts may be what no frame holds: half of a surrogate pair, an integer of 80 digits.
            return Answered(ok=False, text=f"{REASONS['arguments']}: {clip(str(error), 300)}")
        except Fault as fault:
            return Answered(ok=False, text=str(fault))

    async def _run(self, request: ToolRequest) -> Answered:
        within_s = self._call_s
        async with stream(
            self._socket,
            request,
            ApprovalWanted,
            ToolResponse,
            timeout_s=None,
            connect_within_s=_CONNECT_WITHIN_S,
            unreachable=_UNREACHABLE,
        ) as answers:
            while True:
                answer = await _next(answers, within_s)
                if isinstance(answer, ToolResponse):
                    return Answered(answer.ok, answer.text)
                # It is answered or lapses by then, and what was allowed is run after.
                within_s = self._call_s + (parse(answer.expires) - self._clock()).total_seconds()


async def _next(
    answers: AsyncIterator[ApprovalWanted | ToolResponse], within_s: float
) -> ApprovalWanted | ToolResponse:
    try:
        with anyio.fail_after(within_s):
            return await anext(answers)
    except (TimeoutError, StopAsyncIteration):
        raise Fault(_UNREACHABLE) from None
