"""A socket spoken to as it is: every byte passes, an end is an end, whoever waits is told, and others have their turn."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from proto.role.raw import Raw

pytestmark = pytest.mark.anyio


@contextmanager
def _pair() -> Iterator[tuple[Raw, Raw, socket.socket]]:
    """Both ends, and the second one's socket."""
    one, two = socket.socketpair()
    with one, two:
        one.setblocking(False)
        two.setblocking(False)
        yield Raw(one), Raw(two), two


async def _whole(stream: Raw, most_bytes: int) -> bytes:
    received = b""
    try:
        while True:
            received += await stream.receive(most_bytes)
    except anyio.EndOfStream:
        return received


async def test_more_than_a_socket_takes_at_once_passes_whole() -> None:
    data = bytes(range(256)) * 40_000
    got: list[bytes] = []
    with _pair() as (one, two, _):

        async def read() -> None:
            got.append(await _whole(two, 70_000))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await one.send(data)
            await one.send_eof()
    assert got == [data]


async def test_what_is_there_is_read_after_the_other_side_closed() -> None:
    with _pair() as (one, two, _):
        await one.send(b"last words")
        await one.aclose()
        assert await _whole(two, 4) == b"last words"


async def test_a_broken_connection_and_a_closed_one_are_told_apart() -> None:
    with _pair() as (one, two, _):
        await two.aclose()
        with pytest.raises(anyio.BrokenResourceError):
            await one.send(b"x")
        await one.aclose()
        await one.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await one.send(b"x")
        with pytest.raises(anyio.ClosedResourceError):
            await one.receive()


@pytest.mark.parametrize("writes", [False, True])
async def test_who_waits_is_told_when_it_is_closed(writes: bool) -> None:
    told = []
    with _pair() as (one, _, _raw):

        async def wait() -> None:
            with pytest.raises(anyio.ClosedResourceError):
                await (one.send(b"x" * (8 << 20)) if writes else one.receive())
            told.append(True)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await one.aclose()
    assert told == [True]


async def test_a_wait_that_is_cancelled_loses_no_byte() -> None:
    received = b""
    with _pair() as (one, two, _):
        for number in range(200):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one.send, b"%d;" % number)
                with anyio.move_on_after(0 if number % 2 else 0.0005):
                    received += await two.receive()
        await one.send_eof()
        received += await _whole(two, 65_536)
    assert received == b"".join(b"%d;" % number for number in range(200))


async def test_in_a_cancelled_scope_nothing_is_read_even_where_something_is_there() -> None:
    with _pair() as (one, two, _):
        await one.send(b"kept")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await two.receive()
        assert scope.cancelled_caught
        assert await two.receive() == b"kept"


async def test_who_reads_on_and_on_leaves_others_their_turn() -> None:
    turns = []
    with _pair() as (one, two, _):
        await one.send(b"x" * 1_000)

        async def other() -> None:
            turns.append(True)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            for _ in range(1_000):
                await two.receive(1)
                if turns:
                    break
    assert turns == [True]
