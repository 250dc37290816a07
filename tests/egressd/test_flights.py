"""A label that rises ends the calls that may not go on, and is told when they are over."""

import anyio
import pytest

from egressd.flights import Flights
from proto.labels import DataClass

pytestmark = pytest.mark.anyio


async def test_each_label_that_rises_waits_for_the_end_of_what_it_closes() -> None:
    flights, landing, over = Flights(), anyio.Event(), []

    async def call() -> None:
        with flights.enter("run-one", DataClass.PUBLIC) as flight:
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await landing.wait()
                over.append(flight.label_rose)

    async def rise(class_: DataClass) -> None:
        assert await flights.label_rises("run-one", class_) == 1
        assert over == [True]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(rise, DataClass.PRIVATE)
        tasks.start_soon(rise, DataClass.SECRET)
        await anyio.sleep(0.01)
        landing.set()
    assert await flights.label_rises("run-one", DataClass.SECRET) == 0


async def test_a_label_that_rises_waits_no_longer_than_a_moment_and_closes_no_other() -> None:
    flights, cut = Flights(), []
    with flights.enter("run-one", DataClass.PUBLIC) as low, flights.enter("run-one", DataClass.SECRET) as high:
        low.on_cut = lambda: cut.append("low")
        high.on_cut = lambda: cut.append("high")
        with anyio.CancelScope(shield=True):
            assert await flights.label_rises("run-one", DataClass.PRIVATE) == 1
            assert await flights.label_rises("run-other", DataClass.SECRET) == 0
    assert cut == ["low"]
    assert low.label_rose
    assert not high.label_rose
