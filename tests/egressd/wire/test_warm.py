"""A connection is given out again only while it is quiet, to whom it served, and not for long."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest

from egressd.wire import warm
from egressd.wire.dial import Upstream
from egressd.wire.warm import Warm

pytestmark = pytest.mark.anyio
IDLE_S = 0.3


class Line:
    """A connection whose other side is the test's."""

    def __init__(self) -> None:
        self.closing = anyio.Event()
        self._said = b""
        self._saying = anyio.Event()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self.closing.is_set()

    def say(self, data: bytes) -> None:
        """Send bytes, or none for the end."""
        self._said = data
        self._saying.set()

    async def receive(self) -> bytes:
        """What the other side says."""
        await self._saying.wait()
        return self._said

    async def aclose(self) -> None:
        """Close it."""
        self.closing.set()

    @property
    def upstream(self) -> Upstream:
        """As relays know it."""
        return cast("Upstream", self)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_AT_LEAST_IDLE_S", 0.01)


@asynccontextmanager
async def kept(*lines: Line, idle_s: float = 30.0, whom: Any = "a") -> AsyncIterator[Warm]:
    """Lines that are kept for somebody."""
    found = Warm(idle_s)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(found.run)
        await anyio.wait_all_tasks_blocked()
        assert all(found.keep(whom, line.upstream) for line in lines)
        await anyio.sleep(0.02)
        yield found
        tasks.cancel_scope.cancel()


async def test_the_last_one_used_is_given_out_once_and_to_its_own() -> None:
    first, second = Line(), Line()
    async with kept(first, second) as found:
        assert await found.take("b") is None
        assert await found.take("a") is second.upstream
        assert await found.take("a") is first.upstream
        assert await found.take("a") is None
    assert not first.closed
    assert not second.closed


@pytest.mark.parametrize("said", [b"HTTP/1.1 408 Request Timeout\r\n\r\n", b""])
async def test_one_on_which_something_came_is_closed(said: bytes) -> None:
    line = Line()
    async with kept(line) as found:
        line.say(said)
        await anyio.wait_all_tasks_blocked()
        assert line.closed
        assert await found.take("a") is None


async def test_one_that_dies_as_it_is_taken_is_not_given_out() -> None:
    line, other = Line(), Line()
    async with kept(other, line) as found:
        line.say(b"x")
        assert await found.take("a") is other.upstream
        assert line.closed


async def test_two_that_want_one_do_not_share_it() -> None:
    line = Line()
    got: list[Upstream | None] = []

    async def take(found: Warm) -> None:
        got.append(await found.take("a"))

    async with kept(line) as found, anyio.create_task_group() as tasks:
        tasks.start_soon(take, found)
        tasks.start_soon(take, found)
    assert sorted(one is None for one in got) == [False, True]


async def test_it_is_closed_when_nobody_wants_it_and_when_the_daemon_ends() -> None:
    old, line = Line(), Line()
    async with kept(old, idle_s=0.05) as found:
        with anyio.fail_after(5):
            await old.closing.wait()
        assert await found.take("a") is None
    async with kept(line):
        pass
    assert line.closed


async def test_a_new_one_waits_and_no_more_than_a_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_AT_LEAST_IDLE_S", 60.0)
    lines = [Line() for _ in range(4)]
    async with kept(*lines) as found:
        assert await found.take("a") is None
        assert not found.keep("a", Line().upstream)
    assert not Warm(5.0).keep("a", Line().upstream)
