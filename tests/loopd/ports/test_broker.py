"""brokerd as loopd waits for it."""

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
from proto.messages.broker import ApprovalAnswer
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

            ended = await port.run(SESSION, WANTED, asked)
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


@pytest.mark.parametrize(("hours", "seconds"), [(24, 86_400), (1, 3600), (-5, 0)])
def test_the_end_of_an_approval_is_counted_from_now(hours: int, seconds: int) -> None:
    assert broker._seconds_until(stamp(NOW + timedelta(hours=hours)), NOW) == seconds
