"""egressd's socket for tool calls that came over MCP: which tools a session may call, and the calls themselves.

They are decided, run and labelled like loopd's, one after the other in their session. May-this-leave is asked on
another socket, with a policy worker of its own, and waits for none of it.
"""

from typing import assert_never

import msgspec

from brokerd.calls import Calls
from brokerd.grants.shelf import Shelf
from brokerd.sessions import Sessions
from proto.messages.broker import ToolRequest, ToolsList, ToolsListReply
from proto.role.serve import Connection
from proto.tools import TOOLS


class ToolsDesk:
    """Answers egressd for the programs that speak MCP."""

    def __init__(self, sessions: Sessions, shelf: Shelf, calls: Calls) -> None:
        self._sessions = sessions
        self._shelf = shelf
        self._calls = calls

    async def __call__(self, request: ToolsList | ToolRequest, connection: Connection) -> msgspec.Struct:
        """The last frame of the answer."""
        match request:
            case ToolsList():
                return self._list(request)
            case ToolRequest():
                return await self._calls.answer(request, connection)
            case _:
                assert_never(request)

    def _list(self, request: ToolsList) -> ToolsListReply:
        """The tools that memoryd runs, but for those that every grant denies.

        A grant's file that cannot be read takes no tool away: the calls are refused while it is so, and say why. A
        program asks once, when it starts.
        """
        self._sessions.find_open(request.session)
        grants = self._shelf.now()
        named = [
            name
            for name, tool in TOOLS.items()
            if tool.runtime == "memoryd" and any(one.says.mode != "deny" for one in grants.matching(name))
        ]
        return ToolsListReply(tools=named)
