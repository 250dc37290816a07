"""Tool calls that came over MCP: what may be called, decided and audited like any other, and holding up no decision."""

from pathlib import Path

import anyio
import pytest

from proto.faults import Fault
from proto.labels import PRIVATE, DataClass, Label
from proto.messages.broker import SessionClose, SessionState, ToolRequest, ToolResponse, ToolsList, ToolsListReply
from proto.reasons import REASONS
from proto.role.call import call
from proto.sockets import socket
from tests.brokerd.running import Brokerd, S, running

pytestmark = pytest.mark.anyio

RULES = '[destinations.local]\nbase_url = "unix:run/egress-model/model.sock"\nceiling = "secret"\n'


async def _list(brokerd: Brokerd, session: str = S) -> list[str]:
    path = socket("egress-broker", "tools.sock").at(brokerd.home)
    reply: ToolsListReply = await call(path, ToolsList(session=session), ToolsListReply)
    return reply.tools


async def _tool(
    brokerd: Brokerd, tool: str, session: str = S, call_id: str = "mcp-1", **arguments: object
) -> ToolResponse:
    path = socket("egress-broker", "tools.sock").at(brokerd.home)
    request = ToolRequest(session=session, call=call_id, tool=tool, arguments=arguments)
    reply: ToolResponse = await call(path, request, ToolResponse)
    return reply


async def test_the_tools_are_those_of_memory(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        brokerd.grant("fetch", hosts=["example.org"])
        assert await _list(brokerd) == ["recall", "memory"]
        brokerd.write("grants/fetch.toml", "no grant")
        assert await _list(brokerd) == ["recall", "memory"], "a program asks once; the calls are refused instead"
        assert (await _tool(brokerd, "recall", query="x")).text == REASONS["grants-invalid"]


async def test_a_session_that_is_not_open_has_none(home: Path) -> None:
    async with running(home) as brokerd:
        with pytest.raises(Fault) as refused:
            await _list(brokerd)
        assert refused.value.code == "session-not-open"
        denied = await _tool(brokerd, "recall", query="x")
        assert (denied.ok, denied.text) == (False, REASONS["session-not-open"])
        await brokerd.open()
        await call(brokerd.loop, SessionClose(session=S), SessionState)
        with pytest.raises(Fault):
            await _list(brokerd)


async def test_a_call_is_decided_audited_and_labels_its_session(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        brokerd.memoryd.label = Label(class_=DataClass.SECRET, untrusted=True)
        answer = await _tool(brokerd, "recall", query="x")
        assert (answer.call, answer.ok, answer.class_, answer.untrusted) == ("mcp-1", True, DataClass.SECRET, True)
        (line,) = brokerd.audit("decision")
        assert (line["tool"], line["call"], line["session"], line["verdict"]) == ("recall", "mcp-1", S, "allow")
        assert brokerd.stored_label() == Label(class_=DataClass.SECRET, untrusted=True)


async def test_a_decision_waits_for_no_tool_call(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.write("grants.toml", RULES)
        await brokerd.open(label=PRIVATE)
        brokerd.memoryd.gate = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: _tool(brokerd, "recall", query="x"))
            await brokerd.memoryd.began.wait()
            with anyio.fail_after(10):
                assert (await brokerd.leave("local")).allow
            brokerd.memoryd.gate.set()
