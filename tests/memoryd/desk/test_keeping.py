"""The task that keeps kept items in order: by a clock of the test's choice, and whatever the disk says."""

from datetime import UTC, datetime

import anyio
import pytest
from structlog.testing import capture_logs

from memoryd.acts import keep
from memoryd.desk import keeping as module
from memoryd.desk.keeping import Keeping
from proto.messages.memory import KeepEnd
from tests.memoryd.box import Box
from tests.memoryd.kept.items import BODIES, begin, parts

pytestmark = pytest.mark.anyio


class Clock:
    now = datetime(2026, 9, 24, 21, 2, 3, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def _hand_over(box: Box, call: str, days: int) -> None:
    handle = keep.begin(box.holdings, begin(call, days=days))
    for name, data in BODIES.items():
        box.holdings.inbox.piece(handle, name, 0, data)
    keep.end(box.holdings, KeepEnd(handle=handle, parts=parts(BODIES), context=None))


def _kept(box: Box) -> dict[str, str | None]:
    return {one.call: one.erased for one in box.holdings.kept.newest("contexts", None, 100, None)}


async def test_each_goes_on_its_day(box: Box) -> None:
    clock = Clock()
    keeping = Keeping(box.holdings, clock)
    for days in (0, 1, 30):
        _hand_over(box, f"c{days}", days)
    for day, gone in ((24, 1), (25, 2), (26, 2)):
        clock.now = clock.now.replace(day=day)
        await keeping.sweep()
        assert list(_kept(box).values()).count("retention") == gone
    clock.now = clock.now.replace(month=10, day=24)
    await keeping.sweep()
    assert _kept(box) == {"c0": "retention", "c1": "retention", "c30": "retention"}


async def test_whatever_goes_wrong_costs_that_turn_alone(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EVERY_S", 0.001)
    keeping = Keeping(box.holdings, Clock())
    failures = [OSError(5, "Input/output error"), RuntimeError("something else")]
    swept = anyio.Event()

    def sweep(*_: object) -> int:
        if failures:
            raise failures.pop(0)
        swept.set()
        return 0

    monkeypatch.setattr(box.holdings.kept, "sweep", sweep)
    with capture_logs() as logs, anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keeping.run)
            await keeping.listed()
            await swept.wait()
            tasks.cancel_scope.cancel()
    assert [line["event"] for line in logs] == ["kept-listed", "kept-not-in-order", "kept-not-in-order"]
