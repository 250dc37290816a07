"""Memory over MCP, whole: the SDK's own client behind a session's socket, brokerd, memoryd; in both eras of MCP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from proto.labels import PRIVATE, DataClass, Label
from proto.messages import broker, memory
from proto.messages.egress import EgressOpen, EgressOpened
from proto.tools import SHOWN
from tests.brokerd.running import opening
from tests.e2e.box import Box, running

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]

UNTRUSTED = Label(class_=DataClass.PRIVATE, untrusted=True)


def _opened(box: Box, session: str, label: Label = PRIVATE) -> str:
    """The path of a session's own socket, the session opened as launcherd would."""
    asked = msgspec.structs.replace(opening(session, label), session_kind="run", destination="up")
    box.ask("loop-broker", asked, broker.SessionState)
    asking = EgressOpen(session=session, destination="up", auth="none", harness=None)
    reply: EgressOpened = box.ask("launcher-egress", asking, EgressOpened)
    return reply.path


@asynccontextmanager
async def _client(path: str, mode: str) -> AsyncIterator[Any]:
    """A client of the SDK, which takes a second to import: whoever collects the tests does not wait for it."""
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=path)) as http:
        transport = streamable_http_client("http://session/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


async def _called(path: str, mode: str, tool: str, **arguments: object) -> tuple[str, bool]:
    """The text of a call's result, and whether it is a failure, over a client of its own."""
    async with _client(path, mode) as client:
        listed = await client.list_tools()
        assert {one.name: (one.description, one.input_schema) for one in listed.tools} == SHOWN
        result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert content.type == "text"
    return content.text, bool(result.is_error)


async def test_a_program_remembers_and_recalls(home: Path) -> None:
    (home / "grants.toml").write_text('[destinations.up]\nbase_url = "http://127.0.0.1:9"\n')
    with running(home, "memoryd", "brokerd", "egressd") as box:
        first, second = _opened(box, "run-first"), _opened(box, "run-second")
        noted = await _called(first, "legacy", "memory", action="note", text="The launch moved to Thursday.")
        assert noted == ("noted", False)
        hit, failed = await _called(second, "2026-07-28", "recall", query="launch")
        source, snippet = hit.splitlines()
        assert not failed
        assert source.startswith("[1] memory · note, ")
        assert source.endswith(" UTC, session run-first · private")
        assert snippet == "The launch moved to Thursday."
        added = await _called(second, "auto", "memory", action="add", file="user", text="Likes tea.")
        assert added == ("user.md updated (10 of 1,375 characters); it takes effect in the next session", False)
        refused = await _called(second, "auto", "recall", query="")
        assert refused[1]

        edits = box.ask("owner-memory", memory.Edits(last=9), memory.EditsReply).edits
        assert [(edit["session"], edit["action"], edit["by"]) for edit in edits] == [
            ("run-first", "note", "agent"),
            ("run-second", "add", "agent"),
        ]
        lines = box.ask("owner-broker", broker.Decisions(last=20), broker.DecisionsReply).decisions
        made = [(line["session"], line["tool"], line["verdict"]) for line in lines if line["kind"] == "decision"]
        assert made == [
            ("run-first", "memory", "allow"),
            ("run-second", "recall", "allow"),
            ("run-second", "memory", "allow"),
            ("run-second", "recall", "deny"),
        ]

        # What an untrusted session notes is untrusted, and so is whoever has recalled it.
        third = _opened(box, "run-third", UNTRUSTED)
        noted = await _called(third, "auto", "memory", action="note", text="The vault opens at noon.")
        assert noted == ("noted (untrusted)", False)
        await _called(first, "auto", "recall", query="vault")
        labels = box.ask("owner-broker", broker.SessionLabels(), broker.SessionLabelsReply).sessions
        assert {row.session: row.untrusted for row in labels} == {
            "run-first": True,
            "run-second": False,
            "run-third": True,
        }

        box.ask("loop-broker", broker.SessionClose(session="run-second"), broker.SessionState)
        text, failed = await _closed(second)
        assert failed
        assert text == "refused: the session is not open"


async def _closed(path: str) -> tuple[str, bool]:
    """What a call of a session gives that brokerd has closed."""
    async with _client(path, "legacy") as client:
        result = await client.call_tool("recall", {"query": "x"})
    (content,) = result.content
    assert content.type == "text"
    return content.text, bool(result.is_error)
