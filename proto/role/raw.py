"""A connected socket spoken to as it is: the event loop is asked only to wait, and most exchanges need not.

A stream of anyio's gives every piece a turn of the loop, and a socket of TCP a transport; in front of a short exchange
that costs more than the exchange does.
"""

import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
import anyio.abc
import anyio.lowlevel
from anyio.abc import SocketAttribute

PIECE_BYTES: Final = 1 << 16


async def send(raw: socket.socket, data: bytes) -> None:
    """Send all of the bytes.

    Raises:
        OSError: the other side takes no more.
        anyio.ClosedResourceError: the socket was closed meanwhile.

    """
    view = memoryview(data)
    while view:
        try:
            view = view[raw.send(view) :]
        except BlockingIOError:
            await anyio.wait_writable(raw)


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
        with anyio.fail_after(within_s):
            await send(raw, data[sent:])


async def receive(raw: socket.socket, most_bytes: int = PIECE_BYTES) -> bytes:
    """The next bytes; none at the end.

    Raises:
        OSError: the connection broke.
        anyio.ClosedResourceError: the socket was closed meanwhile.

    """
    while True:
        try:
            return raw.recv(most_bytes)
        except BlockingIOError:
            await anyio.wait_readable(raw)


async def accept(listening: socket.socket) -> "Raw":
    """The next client of a listening socket that does not block. Between two of them others have their turn.

    Raises:
        OSError: no file is left for it (accept(2)).

    """
    await anyio.lowlevel.checkpoint()
    while True:
        try:
            client, _ = listening.accept()
        except BlockingIOError:
            await anyio.wait_readable(listening)
        except ConnectionAbortedError:
            continue  # it left before it was let in
        else:
            client.setblocking(False)
            return Raw(client)


class Raw(anyio.abc.ByteStream):
    """Such a socket as a stream. Whoever reads on and on still leaves others their turn."""

    def __init__(self, raw: socket.socket) -> None:
        """`raw` is connected and does not block."""
        self.socket = raw

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
        try:
            await send(self.socket, item)
        except OSError as error:
            raise self._failed() from error

    async def receive(self, max_bytes: int = PIECE_BYTES) -> bytes:
        """The next bytes.

        Raises:
            anyio.EndOfStream: the other side sends no more.
            anyio.BrokenResourceError: the connection broke.
            anyio.ClosedResourceError: it is closed.

        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        try:
            try:
                data = self.socket.recv(max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self.socket)
                data = await receive(self.socket, max_bytes)
            else:
                # What was read is not lost where this is cancelled.
                await anyio.lowlevel.cancel_shielded_checkpoint()
        except OSError as error:
            raise self._failed() from error
        if not data:
            raise anyio.EndOfStream
        return data

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
        if self.socket.fileno() >= 0:
            anyio.notify_closing(self.socket)
            self.socket.close()

    def _failed(self) -> Exception:
        closed = self.socket.fileno() < 0
        return anyio.ClosedResourceError() if closed else anyio.BrokenResourceError()
