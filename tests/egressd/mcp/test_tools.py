"""Tool calls of MCP on their way to brokerd: an id each, an answer each, whatever comes in and whatever comes back."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egressd.mcp.tools import Answered, Tools
from proto.faults import FAULTS, Fault
from proto.messages.broker import ToolRequest
from proto.reasons import REASONS
from proto.role.clock import now
from tests.fakes.tools_broker import ROW, FakeToolsBroker

pytestmark = pytest.mark.anyio

S = "run-one"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def _tools(home: Path, call_s: float = 20.0) -> Tools:
    return Tools(ROW.at(home), call_s, now)


async def test_the_tools_are_those_that_brokerd_names(home: Path) -> None:
    with FakeToolsBroker(home) as broker:
        assert await _tools(home).named(S) == ["recall", "memory"]
        broker.fault = "session-not-open"
        with pytest.raises(Fault) as refused:
            await _tools(home).named(S)
        assert refused.value.code == "session-not-open"


async def test_each_call_has_an_id_of_its_own(home: Path) -> None:
    with FakeToolsBroker(home) as broker:
        for _ in range(3):
            assert await _tools(home).run(S, "memory", {"action": "note", "text": "x"}) == Answered(True, "done")
        calls = [request for request in broker.requests if isinstance(request, ToolRequest)]
        assert len({request.call for request in calls}) == 3
        assert all((c.session, c.tool, c.arguments["text"]) == (S, "memory", "x") for c in calls)


async def test_a_refusal_is_a_failed_result_with_its_sentence(home: Path) -> None:
    with FakeToolsBroker(home) as broker:
        broker.ok, broker.text = False, REASONS["taint"]
        assert await _tools(home).run(S, "recall", {}) == Answered(False, REASONS["taint"])
        broker.fault = "session-not-open"
        assert await _tools(home).run(S, "recall", {}) == Answered(False, FAULTS["session-not-open"].sentence)
        broker.fault, broker.hangs_up = None, True
        gone = await _tools(home).run(S, "recall", {})
        assert not gone.ok
        assert FAULTS["brokerd-unreachable"].sentence in gone.text


async def test_without_brokerd_nothing_is_done(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egressd.mcp.tools._CONNECT_WITHIN_S", 0.2)
    answered = await _tools(home).run(S, "recall", {})
    assert not answered.ok
    assert FAULTS["brokerd-unreachable"].sentence in answered.text


async def test_the_owner_is_waited_for_beyond_the_time_of_a_call(home: Path) -> None:
    with FakeToolsBroker(home) as broker:
        broker.asks = True
        heard: list[Answered] = []

        async def ask() -> None:
            heard.append(await _tools(home, call_s=0.2).run(S, "recall", {}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.sleep(0.5)
            assert not heard
            broker.release()
        assert heard == [Answered(True, "done")]


async def test_an_approval_that_lapsed_unheard_ends_the_call(home: Path) -> None:
    with FakeToolsBroker(home) as broker:
        broker.asks, broker.expires = True, "2020-01-01T00:00:00Z"
        answered = await _tools(home, call_s=0.2).run(S, "recall", {})
        assert not answered.ok
        broker.release()


@settings(max_examples=40)
@given(arguments=st.dictionaries(st.text(max_size=5), JSON, max_size=3))
async def test_whatever_json_holds_is_sent_as_it_is_or_refused(home: Path, arguments: dict[str, Any]) -> None:
    with FakeToolsBroker(home) as broker:
        answered = await _tools(home).run(S, "recall", arguments)
        sent = [request.arguments for request in broker.requests]
        assert sent == [arguments] if answered.ok else not sent
        assert answered.ok or answered.text.startswith(REASONS["arguments"])
