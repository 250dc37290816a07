"""What the policy is given of arguments: those that have a tool's shape, whole, and no more than it can take."""

from pathlib import Path

import pytest

from brokerd.policy.inforce import NO_POLICY
from proto.reasons import REASONS
from proto.tools import TOOLS
from tests.brokerd.running import running

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("recall", {"query": ["x"] * 30_000}),
        ("recall", {"query": "x", "k": {str(number): number for number in range(20_000)}}),
        ("memory", {"action": "consolidate", "file": "memory", "entries": [{"old": "a", "keep": True}] * 1000}),
        ("memory", {"action": "add", "file": "memory", "text": "\0" * 200_000}),
        ("x" * 500_000, {}),
    ],
    ids=["items", "keys", "entries", "bytes", "name"],
)
async def test_what_no_tool_takes_is_refused_without_the_policy(
    home: Path, tool: str, arguments: dict[str, object]
) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        reply = await brokerd.tool(tool, arguments)
        reason = "arguments" if tool in TOOLS else "tool-unknown"
        assert reply.text.startswith(REASONS[reason])
        (decision,) = brokerd.audit("decision")
        assert (decision["reasons"], decision["policy"]) == ([reason], NO_POLICY)
        assert len(decision["tool"]) <= 200
        assert brokerd.memoryd.calls == []


async def test_a_consolidate_of_hundreds_of_entries_is_decided(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        entries = [{"old": f"entry {number}", "keep": True} for number in range(700)]
        assert (await brokerd.tool("memory", {"action": "consolidate", "file": "memory", "entries": entries})).ok
