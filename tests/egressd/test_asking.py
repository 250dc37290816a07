"""Questions for brokerd wait for their turn; those of a busy session do not keep another's waiting."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from egressd import asking
from egressd.asking import Asking
from egressd.config import Relay
from proto.messages.broker import EgressAsk

pytestmark = pytest.mark.anyio


def _ask(session: str, number: int) -> EgressAsk:
    return EgressAsk(session=session, call=f"c{number}", destination="up", method="GET", path="/v1/models", what="read")


async def test_a_busy_session_keeps_no_other_waiting(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    at_once, answered = 0, anyio.Event()

    async def call(_: Path, request: EgressAsk, *__: Any, **___: Any) -> str:
        nonlocal at_once
        asked.append(request.session)
        at_once += 1
        await answered.wait()
        at_once -= 1
        return "yes"

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
