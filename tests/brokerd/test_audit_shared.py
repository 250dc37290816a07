"""Decisions that come at once share one wait for the disk, and none is told before its line is there."""

import threading
import time
from pathlib import Path

import anyio
import pytest

from brokerd import audit as module
from brokerd.audit import Audit
from brokerd.decide import Decision
from proto.labels import DataClass, Label
from proto.role import journal
from proto.role.clock import now

YES = Decision(
    verdict="allow", reasons=("within-ceiling",), label=Label(DataClass.PRIVATE, untrusted=False), policy="x"
)


@pytest.fixture
def audit(home: Path) -> Audit:
    found = Audit(home, now)
    found.open()
    return found


async def _left(audit: Audit, call: dict[str, str]) -> None:
    """A decision on bytes that may leave now."""
    audit.leaving((call, YES))
    await audit.on_disk()


def test_many_at_once_share_the_wait(audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go, syncs = threading.Event(), threading.Event(), 0
    real = journal.JsonLines.sync

    def slow(log: journal.JsonLines) -> None:
        nonlocal syncs
        syncs += 1
        begun.set()
        assert go.wait(10)
        real(log)

    monkeypatch.setattr(journal.JsonLines, "sync", slow)
    told: list[int] = []

    async def leave(number: int) -> None:
        await _left(audit, {"session": "chat-1", "call": f"c{number}"})
        told.append(number)

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave, 0)
            await anyio.to_thread.run_sync(begun.wait, 10)
            for number in range(1, 40):
                tasks.start_soon(leave, number)
            await anyio.wait_all_tasks_blocked()
            assert told == []
            go.set()

    anyio.run(run)
    assert told == list(range(40))
    assert syncs == 2
    assert [line["call"] for line in audit.last(100, None)] == [f"c{number}" for number in range(40)]
    (state,) = audit.verify()
    assert (state.lines, state.first_bad) == (40, None)


def test_a_quick_disk_is_waited_for_in_place_and_a_slow_one_in_a_thread(
    audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, wait_s, threads = journal.JsonLines.sync, 0.0, []

    def sync(log: journal.JsonLines) -> None:
        threads.append(threading.current_thread() is threading.main_thread())
        time.sleep(wait_s)
        real(log)

    monkeypatch.setattr(journal.JsonLines, "sync", sync)
    monkeypatch.setattr(module, "_QUICK_S", 0.2)
    for number, wait_s in enumerate((0.0, 0.0, 0.3, 0.0, 0.0)):  # noqa: B007  (sync reads it)
        anyio.run(_left, audit, {"session": "chat-1", "call": f"c{number}"})
    assert threads == [False, True, True, False, True]
    assert len(audit.last(100, None)) == 5


def test_a_disk_that_fails_is_no_decision_and_the_log_goes_on(audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(log: journal.JsonLines) -> None:
        raise OSError(5, "I/O error")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="I/O error"):
        patched.setattr(journal.JsonLines, "sync", broken)
        anyio.run(_left, audit, {"call": "c1"})
    anyio.run(_left, audit, {"call": "c2"})
    (state,) = audit.verify()
    assert state.first_bad is None
    assert audit.last(1, None)[0]["call"] == "c2"
