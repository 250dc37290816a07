"""The pool: each client is served once, alone and with no trace of another's; few tasks wait, and hold nothing."""

import gc
import weakref

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.role import pool as module
from proto.role import trace
from proto.role.pool import Pool

pytestmark = pytest.mark.anyio

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Client:
    """Somebody who stays for some turns of the loop."""

    def __init__(self, number: int, turns: int) -> None:
        self.number = number
        self.turns = turns


async def _turns(count: int) -> None:
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30))
async def test_each_client_is_served_once_by_a_task_that_serves_nobody_else(clients: list[tuple[int, int]]) -> None:
    served: list[int] = []
    inside: set[int] = set()
    traces: set[str | None] = set()

    async def serve(client: Client) -> None:
        me = anyio.get_current_task().id
        assert me not in inside
        inside.add(me)
        traces.add(trace.current())
        trace.follow(TRACE)
        served.append(client.number)
        await _turns(client.turns)
        inside.remove(me)

    async with anyio.create_task_group() as tasks:
        pool = Pool(tasks, serve)
        for number, (stays, pause) in enumerate(clients):
            pool.start(Client(number, stays))
            await _turns(pause)
        await _turns(10)
        tasks.cancel_scope.cancel()
    assert sorted(served) == list(range(len(clients)))
    assert traces <= {None}
    assert not inside


async def test_a_task_serves_one_client_after_another_and_few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_IDLE", 2)
    tasks_seen: list[int] = []

    async def serve(_: int) -> None:
        tasks_seen.append(anyio.get_current_task().id)
        await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        pool = Pool(tasks, serve)
        for number in range(5):
            pool.start(number)
        await _turns(5)
        assert len(set(tasks_seen)) == 5
        assert len(pool._idle) == 2
        for number in range(4):
            pool.start(number)
            await _turns(5)
        assert len(set(tasks_seen)) == 5
        tasks.cancel_scope.cancel()


async def test_who_waits_holds_nothing_of_a_client() -> None:
    async def serve(_: Client) -> None:
        await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        pool = Pool(tasks, serve)
        gone: list[weakref.ref[Client]] = []
        for turns in range(3):
            client = Client(turns, turns)
            gone.append(weakref.ref(client))
            pool.start(client)
            del client
            await _turns(5)
        gc.collect()
        assert [one() for one in gone] == [None] * 3
        tasks.cancel_scope.cancel()


async def test_what_is_raised_ends_the_group() -> None:
    async def serve(number: int) -> None:
        await anyio.lowlevel.checkpoint()
        if number == 2:
            raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        async with anyio.create_task_group() as tasks:
            pool = Pool(tasks, serve)
            for number in range(3):
                pool.start(number)
                await _turns(5)
            await anyio.sleep_forever()
    assert caught.group_contains(ZeroDivisionError)


async def test_a_client_that_comes_when_the_waiting_are_cancelled_is_none_of_theirs() -> None:
    served: list[int] = []

    async def serve(number: int) -> None:
        served.append(number)

    async with anyio.create_task_group() as later:
        async with anyio.create_task_group() as tasks:
            pool = Pool(tasks, serve)
            pool.start(1)
            await _turns(5)
            tasks.cancel_scope.cancel()
        pool._tasks = later
        pool.start(2)
        await _turns(5)
        later.cancel_scope.cancel()
    assert served == [1, 2]
