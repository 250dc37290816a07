"""A connected socket spoken to as it is: the event loop is asked only to wait, and most exchanges need not.

A stream of anyio's gives every piece a turn of the loop, a socket of TCP a transport, and a clock a scope; in front of
a short exchange that costs more than the exchange does. Here a wait is one future of asyncio's loop, on which every
daemon runs, and its clock ends that future. Laws (tested):

1. A wait that is cancelled or comes too late takes no byte, and leaves nothing behind in the loop.
2. Who waits for a `Raw` that is closed is told at once, also where the number of its file is another's already.
3. In one direction one task waits for a socket: a second one is refused, since the loop would forget the first.
4. Who reads what is always there already leaves others their turn, and ends when it is cancelled or its time is over.
"""

import asyncio
import math
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
import anyio.abc
import anyio.lowlevel
from anyio.abc import SocketAttribute

PIECE_BYTES: Final = 1 << 16
_A_TURN_BYTES: Final = 1 << 16
_A_PIECE_COSTS_BYTES: Final = 1 << 12
"""What is done with a piece costs somewhat, be it as small as it may."""

_Waiter = asyncio.Future[type[Exception] | None]
"""Done when there is something to do, or with what is raised instead."""

_reading: Final[dict[int, _Waiter]] = {}
_writing: Final[dict[int, _Waiter]] = {}
"""Who waits, by the number of the file."""


def deadline(within_s: float) -> float:
    """The time of the loop's clock in so many seconds."""
    return asyncio.get_running_loop().time() + within_s


async def readable(raw: socket.socket, by: float = math.inf) -> None:
    """Wait until there is something to read, or the end; no longer than to a time of the loop's clock.

    Raises:
        TimeoutError: nothing came by then.
        anyio.ClosedResourceError: the socket is closed, or was meanwhile.
        anyio.BusyResourceError: another task waits for the same.

    """
    loop = asyncio.get_running_loop()
    await _until(loop, raw.fileno(), _reading, loop.add_reader, loop.remove_reader, by)


async def writable(raw: socket.socket, by: float = math.inf) -> None:
    """Wait until the socket takes bytes, or never will; as `readable`."""
    loop = asyncio.get_running_loop()
    await _until(loop, raw.fileno(), _writing, loop.add_writer, loop.remove_writer, by)


async def _until(
    loop: asyncio.AbstractEventLoop,
    number: int,
    waiting: dict[int, _Waiter],
    watch: Callable[..., None],
    unwatch: Callable[[int], object],
    by: float,
) -> None:
    if number < 0:
        raise anyio.ClosedResourceError
    if number in waiting:
        raise anyio.BusyResourceError("waiting for")
    waiter: _Waiter = loop.create_future()
    watch(number, _end, waiter, None)
    waiting[number] = waiter
    clock = None if by == math.inf else loop.call_at(by, _end, waiter, TimeoutError)
    try:
        failure = await waiter
    finally:
        if clock is not None:
            clock.cancel()
        if waiting.get(number) is waiter:
            del waiting[number]
            unwatch(number)
    if failure is not None:
        raise failure


def _end(waiter: _Waiter, failure: type[Exception] | None) -> None:
    # Cancelled, or told of already, in this very step of the loop.
    if not waiter.done():
        waiter.set_result(failure)


def _tell_closing(number: int) -> None:
    if (reader := _reading.pop(number, None)) is not None:
        reader.get_loop().remove_reader(number)
        _end(reader, anyio.ClosedResourceError)
    if (writer := _writing.pop(number, None)) is not None:
        writer.get_loop().remove_writer(number)
        _end(writer, anyio.ClosedResourceError)


async def send(raw: socket.socket, data: bytes, by: float = math.inf) -> None:
    """Send all of the bytes, waiting no longer than to a time of the loop's clock.

    Raises:
        TimeoutError: the other side has not taken them by then.
        OSError: it takes no more.
        anyio.ClosedResourceError: the socket was closed meanwhile.

    """
    view = memoryview(data)
    while view:
        try:
            view = view[raw.send(view) :]
        except BlockingIOError:
            await writable(raw, by)


async def send_within(raw: socket.socket, data: bytes, within_s: float) -> None:
    """Send all of the bytes. What the socket takes at once, which is most, needs neither the loop nor a clock.

    Raises:
        TimeoutError: the other side takes nothing.
        OSError, anyio.ClosedResourceError: as `send`.

    """
    try:
        sent = raw.send(data)
    except BlockingIOError:
        sent = 0
    if sent < len(data):
        await send(raw, data[sent:], deadline(within_s))


async def receive(raw: socket.socket, most_bytes: int = PIECE_BYTES, by: float = math.inf) -> bytes:
    """The next bytes, waited for no longer than to a time of the loop's clock; none at the end.

    Raises:
        TimeoutError: nothing came by then.
        OSError: the connection broke.
        anyio.ClosedResourceError: the socket was closed meanwhile.

    """
    while True:
        try:
            return raw.recv(most_bytes)
        except BlockingIOError:
            await readable(raw, by)


async def accept(listening: socket.socket) -> "Raw":
    """The next client of a listening socket that does not block. Between two of them others have their turn.

    Raises:
        OSError: no file is left for it (accept(2)).

    """
    await asyncio.sleep(0)
    while True:
        try:
            client, _ = listening.accept()
        except BlockingIOError:
            await readable(listening)
        except ConnectionAbortedError:
            continue  # it left before it was let in
        else:
            client.setblocking(False)
            return Raw(client)


class Raw(anyio.abc.ByteStream):
    """Such a socket as a stream."""

    def __init__(self, raw: socket.socket) -> None:
        """`raw` is connected and does not block."""
        self.socket = raw
        self._in_a_row_bytes = 0
        """What was there to read since others had their turn."""
        self._has_asked = False
        """Something was sent, and nothing received since."""

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The socket itself."""
        return {SocketAttribute.raw_socket: lambda: self.socket}

    async def send(self, item: bytes) -> None:
        """Send bytes.

        Raises:
            anyio.BrokenResourceError: the other side takes no more.
            anyio.ClosedResourceError: it is closed.

        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        self._has_asked = True
        try:
            await send(self.socket, item)
        except OSError as error:
            raise self._failed() from error

    async def receive(self, max_bytes: int = PIECE_BYTES, by: float = math.inf) -> bytes:
        """The next bytes, waited for no longer than to a time of the loop's clock.

        Raises:
            TimeoutError: nothing came by then.
            anyio.EndOfStream: the other side sends no more.
            anyio.BrokenResourceError: the connection broke.
            anyio.ClosedResourceError: it is closed.

        """
        if self._in_a_row_bytes >= _A_TURN_BYTES:
            await self._leave_a_turn(by)
        # The answer to what was just sent is not there yet.
        data = None if self._has_asked else self._received(max_bytes)
        while data is None:
            await readable(self.socket, by)
            self._has_asked, self._in_a_row_bytes = False, 0
            data = self._received(max_bytes)
        if not data:
            raise anyio.EndOfStream
        self._in_a_row_bytes += _A_PIECE_COSTS_BYTES + len(data)
        return data

    def _received(self, max_bytes: int) -> bytes | None:
        """What is there, or None."""
        try:
            return self.socket.recv(max_bytes)
        except BlockingIOError:
            return None
        except OSError as error:
            raise self._failed() from error

    async def _leave_a_turn(self, by: float) -> None:
        """Before anything is read, so that nothing is lost where it is cancelled."""
        self._in_a_row_bytes = 0
        await asyncio.sleep(0)
        if deadline(0) >= by:
            raise TimeoutError

    async def send_eof(self) -> None:
        """Say that nothing more will be sent.

        Raises:
            OSError: the other side has gone.

        """
        self.socket.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close it; who waits for it is told."""
        if (number := self.socket.fileno()) >= 0:
            _tell_closing(number)
            self.socket.close()

    def _failed(self) -> Exception:
        closed = self.socket.fileno() < 0
        return anyio.ClosedResourceError() if closed else anyio.BrokenResourceError()
