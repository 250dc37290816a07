"""brokerd as loopd waits for it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from loopd.ports import broker
from loopd.ports.broker import BrokerPort
from loopd.session.records import Call
from loopd.tools.calls import Wanted
from loopd.turn.steps import ApprovalAsked, ToolAnswered, ToolFailed
from proto.labels import PRIVATE
from proto.messages.broker import ApprovalAnswer, ToolRequest
from proto.role.clock import stamp
from proto.sockets import socket
from tests.fakes.brokerd import FakeBrokerd, Says
from tests.loopd.logs import SESSION

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 9, 24, 21, 2, 3, tzinfo=UTC)
WANTED = Wanted(Call("a", "http_fetch", {}), "http_fetch", {}, None)


async def _asked_for(home: Path, expires: str, *, allow: bool) -> ToolAnswered | ToolFailed:
    """A call that waits for the owner, who answers a while later, or never."""
    with FakeBrokerd(home, {"http_fetch": Says("page", asks=True)}) as fake:
        fake.expires = expires
        fake.labels[SESSION] = PRIVATE
        port = BrokerPort(socket("loop-broker").at(home), "dom-me", lambda: NOW)
        async with anyio.create_task_group() as tasks:

            async def answer(approval: str) -> None:
                await anyio.sleep(0.5)
                await port.answer(ApprovalAnswer(approval=approval, allow=True, by="chat"))

            async def asked(approval: ApprovalAsked) -> None:
                if allow:
                    tasks.start_soon(answer, approval.approval)

            ended = await port.run(SESSION, WANTED, asked, anyio.Event())
    return ended


async def test_an_approval_is_waited_for_until_it_lapses(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "_CALL_SECONDS", 0.2)
    for expires in (stamp(NOW + timedelta(days=1)), "some day"):
        assert await _asked_for(home, expires, allow=True) == ToolAnswered(True, "page", PRIVATE)


async def test_a_brokerd_that_is_silent_after_that_counts_as_gone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "_CALL_SECONDS", 0.2)
    failed = await _asked_for(home, stamp(NOW - timedelta(hours=1)), allow=False)
    assert isinstance(failed, ToolFailed)
    assert (failed.code, failed.ends_turn) == ("brokerd-unreachable", True)


class Asking:
    """A call that waits for the owner, and what is heard of it."""

    def __init__(self, home: Path) -> None:
        self.port = BrokerPort(socket("loop-broker").at(home), "dom-me", lambda: NOW, connect_within_s=0.1)
        self.stop = anyio.Event()
        self.heard: list[str] = []
        self.ended: ToolAnswered | ToolFailed | None = None

    async def run(self) -> None:
        self.ended = await self.port.run(SESSION, WANTED, self._asked, self.stop)

    async def _asked(self, approval: ApprovalAsked) -> None:
        self.heard.append(approval.approval)

    async def answer(self) -> None:
        await self.port.answer(ApprovalAnswer(approval=self.heard[0], allow=True, by="chat"))


@pytest.fixture
def fake(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBrokerd]:
    monkeypatch.setattr(broker, "_PAUSES_SECONDS", (0.01, 0.02))
    with FakeBrokerd(home, {"http_fetch": Says("page", asks=True)}) as fake:
        fake.expires = stamp(NOW + timedelta(hours=1))
        fake.labels[SESSION] = PRIVATE
        yield fake


async def test_a_call_that_waits_for_the_owner_is_asked_again_when_brokerd_is_back(
    home: Path, fake: FakeBrokerd
) -> None:
    fake.breaks = 3
    asking = Asking(home)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(asking.run)
        await anyio.to_thread.run_sync(fake.wait_for, ToolRequest, 4)
        await asking.answer()
    assert asking.ended == ToolAnswered(True, "page", PRIVATE)
    assert len(asking.heard) == 1, "the owner is told once"
    first, *again = fake.of(ToolRequest)
    assert again == [first] * 3


async def test_a_call_that_does_not_wait_for_the_owner_is_never_sent_twice(home: Path, fake: FakeBrokerd) -> None:
    fake.cuts = 1
    asking = Asking(home)
    await asking.run()
    assert isinstance(asking.ended, ToolFailed)
    assert (asking.ended.code, asking.ended.ends_turn) == ("brokerd-unreachable", True)
    assert len(fake.of(ToolRequest)) == 1


async def test_it_is_not_asked_again_once_the_approval_has_lapsed(home: Path, fake: FakeBrokerd) -> None:
    fake.breaks = 1
    fake.expires = stamp(NOW)
    asking = Asking(home)
    await asking.run()
    assert isinstance(asking.ended, ToolFailed)
    assert len(fake.of(ToolRequest)) == 1


async def test_a_turn_that_is_stopped_does_not_wait_for_brokerd(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asking = Asking(home)
    with FakeBrokerd(home, {"http_fetch": Says("page", asks=True)}) as fake:
        fake.expires = stamp(NOW + timedelta(hours=1))
        fake.labels[SESSION] = PRIVATE
        fake.breaks = 10**9
        monkeypatch.setattr(broker, "_PAUSES_SECONDS", (3600.0,))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asking.run)
            await anyio.to_thread.run_sync(fake.wait_for, ToolRequest)
            asking.stop.set()
    assert isinstance(asking.ended, ToolFailed)
    assert asking.ended.code == "brokerd-unreachable"


async def test_another_fault_is_not_waited_out(home: Path, fake: FakeBrokerd) -> None:
    def last_heard(_: ToolRequest) -> Says:
        fake.fault = "session-not-open"
        return Says("page", asks=True)

    fake.breaks = 1
    fake.tools["http_fetch"] = last_heard
    asking = Asking(home)
    await asking.run()
    assert isinstance(asking.ended, ToolFailed)
    assert (asking.ended.code, asking.ended.ends_turn) == ("session-not-open", True)


@pytest.mark.parametrize(("hours", "seconds"), [(24, 86_400), (1, 3600), (-5, 0)])
def test_the_end_of_an_approval_is_counted_from_now(hours: int, seconds: int) -> None:
    assert broker._seconds_until(stamp(NOW + timedelta(hours=hours)), NOW) == seconds
