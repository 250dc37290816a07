"""Questions for brokerd wait for their turn; those of a busy session do not keep another's waiting."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from egressd import asking
from egressd.asking import Asking
from egressd.config import Relay
from proto.labels import DataClass
from proto.messages.broker import EgressAsk, EgressDecision

pytestmark = pytest.mark.anyio


def _ask(session: str, number: int) -> EgressAsk:
    return EgressAsk(session=session, call=f"c{number}", destination="up", method="GET", path="/v1/models", what="read")


def _decision(*, allow: bool) -> EgressDecision:
    return EgressDecision(allow=allow, reasons=[], message="", class_=DataClass.PUBLIC, untrusted=False, domain=None)


async def test_a_busy_session_keeps_no_other_waiting(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    at_once, answered = 0, anyio.Event()

    async def call(_: Path, request: EgressAsk, *__: Any, **___: Any) -> EgressDecision:
        nonlocal at_once
        asked.append(request.session)
        at_once += 1
        await answered.wait()
        at_once -= 1
        return _decision(allow=True)

    monkeypatch.setattr(asking, "call", call)
    ask = Asking(home / "broker.sock", Relay())
    async with anyio.create_task_group() as tasks:
        for number in range(200):
            tasks.start_soon(ask, _ask("run-busy", number))
        await anyio.wait_all_tasks_blocked()
        assert len(asked) == at_once == 6
        tasks.start_soon(ask, _ask("run-other", 0))
        await anyio.wait_all_tasks_blocked()
        assert asked[-1] == "run-other"
        for number in range(200):
            tasks.start_soon(ask, _ask(f"run-{number}", 0))
        await anyio.wait_all_tasks_blocked()
        assert at_once == 48
        answered.set()
    assert len(asked) == 401


async def test_who_is_refused_on_and_on_is_asked_about_slowly_until_one_is_allowed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []
    allowed: set[str | None] = {"run-good"}

    async def call(_: Path, request: EgressAsk, *__: Any, **___: Any) -> EgressDecision:
        asked.append(request.session)
        return _decision(allow=request.session in allowed)

    async def many(session: str) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(ask, _ask(session, number))

    monkeypatch.setattr(asking, "call", call)
    monkeypatch.setattr(asking, "_HESITATION_S", 0.05)
    monkeypatch.setattr(asking, "_MOST_REFUSED", 20)
    ask = Asking(home / "broker.sock", Relay())
    with anyio.move_on_after(0.4) as scope:
        await many("run-bad")
    assert scope.cancelled_caught
    assert 20 <= asked.count("run-bad") <= 40
    await many("run-good")
    assert asked.count("run-good") == 100
    allowed.add("run-bad")
    await many("run-bad")
    assert asked.count("run-bad") >= 120
