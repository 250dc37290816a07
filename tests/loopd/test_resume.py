"""What a new start does with the logs that a crash left: repair once, resume, and never for ever."""

import json
from functools import partial
from pathlib import Path

import anyio
import pytest

from loopd import conversations
from loopd.session.records import Assistant, Call, Record, ToolResult, User, to_line
from loopd.session.store import Store
from loopd.turn.opening import INTERRUPTED
from proto.faults import Fault
from proto.labels import DataClass, Label
from proto.messages.broker import SessionOpen, ToolRequest
from proto.messages.loop import SessionLog, SessionLogReply, Sessions, SessionsReply
from tests.fakes.brokerd import Says
from tests.loopd.logs import SESSION, TIME, baseline
from tests.loopd.rig import World, loopd, until, world

pytestmark = pytest.mark.anyio
USER = User(time=TIME, text="hi", author=None)
ASKS = Assistant(time=TIME, content=None, tool_calls=[Call("a", "clock", {}), Call("b", "recall", {"query": "x"})])
FIRST = ToolResult(time=TIME, call="a", name="clock", content="now", class_=DataClass.PUBLIC, untrusted=False)
ANSWER = Assistant(time=TIME, content="hello", tool_calls=[])
SECRET = Label(DataClass.SECRET, untrusted=True)


def left(home: Path, *records: Record) -> None:
    """A session as a crash left it."""
    store = Store(home / "sessions")
    store.create(baseline())
    if records:
        store.append(SESSION, *records)


def _asked(outside: World, count: int) -> bool:
    return len(outside.model.requests) >= count


def lines(outside: World) -> int:
    return len(outside.log(SESSION))


async def test_a_turn_without_an_answer_is_resumed(home: Path) -> None:
    left(home, USER)
    with world(home, [{"text": "hello"}]) as outside:
        outside.broker.labels[SESSION] = SECRET
        async with loopd(home):
            await until(lambda: outside.memory.updated == [SESSION])
        assert outside.log(SESSION)[1:] == [{"kind": "assistant", "content": "hello", "tool_calls": []}]
        assert [request.new for request in outside.broker.of(SessionOpen)] == [False]
        async with loopd(home):
            pass
        assert len(outside.model.requests) == 1


async def test_a_call_without_a_result_is_repaired_once_with_the_label_of_the_moment(home: Path) -> None:
    left(home, USER, ASKS, FIRST)
    with world(home, [{"status": 500}, {"text": "unused"}]) as outside:
        outside.broker.labels[SESSION] = SECRET
        for _ in range(2):
            async with loopd(home):
                await until(lambda: lines(outside) >= 4 and len(outside.model.requests) >= 1)
        assert outside.log(SESSION)[3] == {
            "kind": "tool_result",
            "call": "b",
            "name": "recall",
            "content": INTERRUPTED,
            "class": "secret",
            "untrusted": True,
        }
        results = [line for line in outside.log(SESSION) if line["kind"] == "tool_result"]
        assert [line["call"] for line in results] == ["a", "b"]
        roles = [message["role"] for message in outside.model.requests[0].messages]
        assert roles == ["system", "user", "assistant", "tool", "tool"]


async def test_a_torn_line_is_cut_and_the_turn_resumed(home: Path) -> None:
    left(home, USER)
    with (home / "sessions" / SESSION / "0.jsonl").open("ab") as file:
        file.write(json.dumps(to_line(ANSWER)).encode()[:40])
    with world(home, [{"text": "again"}]) as outside:
        outside.broker.labels[SESSION] = SECRET
        async with loopd(home):
            await until(lambda: outside.memory.updated == [SESSION])
        assert [line["kind"] for line in outside.log(SESSION)] == ["user", "assistant"]


@pytest.mark.parametrize("records", [[], [USER, ANSWER], [USER, ASKS, FIRST, ANSWER]])
async def test_what_is_finished_or_damaged_is_left_alone(home: Path, records: list[Record]) -> None:
    left(home, *records)
    log = home / "sessions" / SESSION / "0.jsonl"
    before = log.read_bytes() if records else b""
    with world(home) as outside:
        async with loopd(home) as rig:
            await rig.chat("another session")
            await anyio.sleep(0.05)
        assert [request.session for request in outside.broker.of(SessionOpen) if request.session == SESSION] == []
        assert (log.read_bytes() if records else b"") == before


async def test_a_turn_that_failed_and_was_told_of_is_not_resumed(home: Path) -> None:
    with world(home, [{"status": 401}]) as outside:
        async with loopd(home) as rig:
            session = (await rig.chat("hi"))[0].session
        async with loopd(home) as rig:
            await rig.chat("another")
            await anyio.sleep(0.05)
            assert len(outside.log(session)) == 1
            # The next text is answered, and the mark is gone with it.
            assert (await rig.chat("again", session))[-1].text == "The script is at its end."
        assert list((home / "state/loopd/turns").iterdir()) == []


async def test_a_turn_is_resumed_three_times_at_most(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "_FIRST_WAIT_SECONDS", 0.01)
    left(home, USER)
    with world(home, [{"status": 503}] * 10) as outside:
        outside.broker.labels[SESSION] = SECRET
        for _ in range(3):
            async with loopd(home) as rig:
                await until(lambda: len(outside.model.requests) >= 3)
                await anyio.sleep(0.1)
        assert len(outside.model.requests) == 3
        async with loopd(home) as rig:
            outside.model.script.clear()
            assert (await rig.chat("are you there?", SESSION))[-1].text == "The script is at its end."


async def test_a_daemon_that_dies_of_a_turn_does_not_die_of_it_for_ever(home: Path) -> None:
    left(home, USER)
    with world(home, [{"text": "x", "hold": True}] * 10) as outside:
        outside.broker.labels[SESSION] = SECRET
        for starts in range(4):
            async with loopd(home):
                await until(partial(_asked, outside, min(starts + 1, 3)))
                await anyio.sleep(0.05)
        assert len(outside.model.requests) == 3


async def test_a_brokerd_that_starts_later_is_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "_FIRST_WAIT_SECONDS", 0.01)
    left(home, USER)
    with world(home, [{"text": "hello"}]) as outside:
        outside.broker.labels[SESSION] = SECRET
        outside.broker.__exit__()
        async with loopd(home):
            await anyio.sleep(2.5)
            outside.broker.__enter__()
            await until(lambda: outside.memory.updated == [SESSION])


async def test_a_log_that_cannot_be_read_or_written_costs_only_its_own_session(home: Path) -> None:
    left(home)
    log = home / "sessions" / SESSION / "0.jsonl"
    log.mkdir()
    with world(home) as outside:
        outside.broker.labels[SESSION] = SECRET
        async with loopd(home) as rig:
            (failed,) = await rig.chat("hi", SESSION)
            assert (failed.code, failed.runbook) == ("session-damaged", "session-damaged")
            (row,) = (await rig.ask(Sessions(), SessionsReply)).sessions
            assert (row.state, row.records) == ("damaged", 0)
            with pytest.raises(Fault) as caught:
                await rig.ask(SessionLog(session=SESSION, first=0), SessionLogReply)
            assert caught.value.code == "session-damaged"
            log.rmdir()
            outside.model.script.append({"calls": [{"name": "recall", "arguments": {"query": "x"}}]})
            outside.broker.tools["recall"] = Says("found", holds=True)
            async with rig.turn("hi", SESSION) as events:
                await anyio.to_thread.run_sync(outside.broker.wait_for, ToolRequest)
                log.rename(home / "moved")
                log.mkdir()
                outside.broker.release()
                failed = [event async for event in events][-1]
            assert (failed.code, failed.message) == (
                "internal",
                f"the log of {SESSION} cannot be written: Is a directory",
            )
            log.rmdir()
            (home / "moved").rename(log)
            # The call has no result in the log: it gets one before the next text.
            assert (await rig.chat("again", SESSION))[-1].text == "The script is at its end."
            assert [line["kind"] for line in outside.log(SESSION)] == [
                "user", "assistant", "tool_result", "user", "assistant",
            ]  # fmt: skip


async def test_a_session_whose_state_is_lost_is_not_resumed(home: Path) -> None:
    left(home, USER)
    with world(home) as outside:
        async with loopd(home) as rig:
            await until(lambda: bool(outside.broker.of(SessionOpen)))
            (failed,) = await rig.chat("hi", SESSION)
            assert failed.code == "session-state-lost"
        assert lines(outside) == 1
