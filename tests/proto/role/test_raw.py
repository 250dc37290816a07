"""A socket spoken to as it is: every byte passes, an end is an end, whoever waits is told, and others have their turn."""

import asyncio
import contextlib
import math
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from proto.role import raw
from proto.role.loop import Loop
from proto.role.raw import Raw

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[Loop, asyncio.SelectorEventLoop])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Callable[[], Any]]]:
    """The loop that the daemons run on, and asyncio's own."""
    return "asyncio", {"loop_factory": request.param}


@contextmanager
def _pair() -> Iterator[tuple[Raw, Raw, socket.socket]]:
    """Both ends, and the second one's socket."""
    one, two = socket.socketpair()
    with one, two:
        one.setblocking(False)
        two.setblocking(False)
        yield Raw(one), Raw(two), two


@contextmanager
def _endless() -> Iterator[Raw]:
    """The end of a connection whose other side never stops sending."""
    one, two = socket.socketpair()

    def send() -> None:
        with contextlib.suppress(OSError):
            while True:
                one.sendall(b"x" * raw.PIECE_BYTES)

    with one, two:
        sender = threading.Thread(target=send)
        sender.start()
        two.setblocking(False)
        try:
            yield Raw(two)
        finally:
            two.close()
            sender.join()


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


@pytest.mark.parametrize("writes", [False, True])
async def test_a_wait_that_is_cancelled_or_too_late_leaves_nothing_in_the_loop(writes: bool) -> None:
    loop = asyncio.get_running_loop()
    unwatch = loop.remove_writer if writes else loop.remove_reader
    with _pair() as (one, two, _):

        async def wait(by: float = math.inf) -> None:
            await (raw.send(one.socket, b"x" * (8 << 20), by) if writes else one.receive(by=by))

        with anyio.move_on_after(0.01) as scope:
            await wait()
        assert scope.cancelled_caught
        assert not unwatch(one.socket.fileno())
        with pytest.raises(TimeoutError):
            await wait(raw.deadline(0.01))
        assert not unwatch(one.socket.fileno())
        await two.send(b"after all")
        assert await one.receive(by=raw.deadline(0)) == b"after all"


async def test_what_a_socket_takes_at_once_needs_no_time_and_the_rest_has_a_clock() -> None:
    with _pair() as (one, two, _):
        await raw.send_within(one.socket, b"little", 0)
        assert await two.receive() == b"little"
        with pytest.raises(TimeoutError):
            await raw.send_within(one.socket, b"x" * (8 << 20), 0.01)


async def test_a_second_one_who_waits_is_refused_and_the_first_is_served() -> None:
    got: list[bytes] = []
    with _pair() as (one, two, _):

        async def read() -> None:
            got.append(await two.receive())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(anyio.BusyResourceError):
                await two.receive()
            await one.send(b"for the first")
    assert got == [b"for the first"]


async def test_who_is_told_of_an_end_takes_nothing_from_the_next_with_that_number() -> None:
    """The number of a file that was closed is given to the next one, maybe before who waited has had a turn."""
    told = []
    with _pair() as (one, _, _raw):

        async def wait() -> None:
            with pytest.raises(anyio.ClosedResourceError):
                await one.receive()
            told.append(True)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            number = one.socket.fileno()
            one.close()
            with _pair() as (new, other, _raw):
                assert number in (new.socket.fileno(), other.socket.fileno())
                reader, writer = (new, other) if new.socket.fileno() == number else (other, new)
                tasks.start_soon(writer.send, b"for the next")
                assert await reader.receive() == b"for the next"
    assert told == [True]


async def test_an_answer_is_read_after_a_question_whether_it_is_there_already_or_comes() -> None:
    with _pair() as (one, two, _):
        await two.send(b"one")
        await one.send(b"?")
        assert [await one.receive(2), await one.receive(2)] == [b"on", b"e"]
        async with anyio.create_task_group() as tasks:
            await one.send(b"?")
            tasks.start_soon(two.send, b"two")
            assert await one.receive() == b"two"
        await one.send(b"?")
        await two.send_eof()
        with pytest.raises(anyio.EndOfStream):
            await one.receive()
        one.close()
        with pytest.raises(anyio.ClosedResourceError):
            await raw.readable(one.socket)


async def test_in_a_cancelled_scope_nothing_is_sent() -> None:
    with _pair() as (one, two, _):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await one.send(b"too late")
        assert scope.cancelled_caught
        await one.send(b"in time")
        assert await two.receive() == b"in time"


@pytest.mark.parametrize("piece_bytes", [1, 100, raw.PIECE_BYTES])
async def test_who_reads_what_is_always_there_leaves_others_their_turn(piece_bytes: int) -> None:
    turns = 0
    sizes: list[int] = []
    with _endless() as stream:

        async def other() -> None:
            nonlocal turns
            while turns < 20:
                turns += 1
                assert len(sizes) <= 16
                assert sum(sizes) < 2 * raw.PIECE_BYTES
                sizes.clear()
                await asyncio.sleep(0)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            while turns < 20:
                sizes.append(len(await stream.receive(piece_bytes)))


@pytest.mark.parametrize("ends", ["cancelled", "late", "its scope late"])
async def test_who_reads_what_is_always_there_ends_in_time(ends: str) -> None:
    with _endless() as stream, anyio.CancelScope() as scope:
        by = raw.deadline(0.02) if ends == "late" else math.inf
        if ends == "cancelled":
            scope.cancel()
        elif ends == "its scope late":
            scope.deadline = anyio.current_time() + 0.02
        with contextlib.suppress(TimeoutError):
            while True:
                await stream.receive(10, by)
    assert scope.cancelled_caught == (ends != "late")
