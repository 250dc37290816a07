"""Two connections joined: what comes on one goes out on the other, byte for byte, until both have ended.

At most one piece a direction is held here; a side that takes nothing is a side that nothing is read for.
"""

import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Final, Literal, Protocol

import anyio
import anyio.abc

from proto.role.raw import Raw

_PIECE_BYTES: Final = 64 << 10

End = Literal["complete", "client-left", "upstream-cut", "idle"]
"""Both sides ended as they should, or which one broke off, or neither sent anything for too long."""


class Inward:
    """The client's connection, read and written as bytes."""

    def __init__(self, stream: Raw) -> None:
        self._stream = stream

    async def send(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            anyio.BrokenResourceError: the client takes no more.

        """
        await self._stream.send(data)

    async def receive(self) -> bytes:
        """The next bytes; none at the end.

        Raises:
            anyio.BrokenResourceError: the connection broke.

        """
        try:
            return await self._stream.receive(_PIECE_BYTES)
        except anyio.EndOfStream:
            return b""

    async def send_eof(self) -> None:
        """Tell the client that nothing more comes."""
        # It may have closed already.
        with contextlib.suppress(OSError):
            await self._stream.send_eof()

    def cut(self) -> None:
        """Make the connection carry nothing more, at once and from any task."""
        with contextlib.suppress(OSError):
            self._stream.socket.shutdown(socket.SHUT_RDWR)


class Side(Protocol):
    """One of two connections that are joined; `Inward` and `Upstream` are such."""

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        ...

    async def receive(self) -> bytes:
        """The next bytes; none at the end."""
        ...

    async def send_eof(self) -> None:
        """Tell the other side that nothing more comes."""
        ...

    def cut(self) -> None:
        """Make it carry nothing more."""
        ...


_Move = Callable[[bytes], Awaitable[None]]


class Splice:
    """Joins a client and an upstream; how many bytes went each way can be asked at any time."""

    def __init__(self, client: Side, upstream: Side, idle_s: float) -> None:
        self._client = client
        self._upstream = upstream
        self._idle_s = idle_s
        self._patience = anyio.CancelScope()
        self._ended: set[Side] = set()
        self._end: End = "complete"
        self.up_bytes = 0
        self.down_bytes = 0

    async def up(self, data: bytes) -> None:
        """Send bytes to the upstream, and count them."""
        await self._upstream.send(data)
        self.up_bytes += len(data)
        self._moved()

    async def down(self, data: bytes) -> None:
        """Send bytes to the client, and count them."""
        await self._client.send(data)
        self.down_bytes += len(data)
        self._moved()

    def cut(self) -> None:
        """Make both connections carry nothing more, at once and from any task."""
        self._upstream.cut()
        self._client.cut()

    async def run(self) -> End:
        """Carry bytes both ways to the end of both; whoever calls closes them."""
        self._moved()
        with self._patience:
            async with anyio.create_task_group() as tasks:
                stop = tasks.cancel_scope.cancel
                tasks.start_soon(self._carry, self._client, self._upstream, self.up, stop)
                tasks.start_soon(self._carry, self._upstream, self._client, self.down, stop)
        return "idle" if self._patience.cancelled_caught else self._end

    async def _carry(self, source: Side, sink: Side, move: _Move, stop: Callable[[], None]) -> None:
        side = source
        try:
            while data := await source.receive():
                side = sink
                await move(data)
                side = source
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # Who has said its last word may break off: a proper end is often followed by that.
            if side not in self._ended:
                self._end = "client-left" if side is self._client else "upstream-cut"
            stop()
            return
        self._ended.add(source)
        await sink.send_eof()

    def _moved(self) -> None:
        self._patience.deadline = anyio.current_time() + self._idle_s
