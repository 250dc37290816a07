"""Serving a framed socket: one request a connection, answered by one frame or by a stream of them.

A bad frame, a foreign peer, or one connection too many costs the daemon no more than an `error` frame. A fault of a
desk becomes an `error` here and nowhere else.
"""

import os
import select
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import anyio
import anyio.abc
import msgspec

from proto import frame
from proto.faults import Fault
from proto.messages.wire import Ok, Ping, error_of
from proto.role import raw, trace
from proto.role.log import logger
from proto.role.pool import Pool
from proto.role.raw import Raw

FRAME_SECONDS: Final = 5.0
"""A frame must be complete within this time, and a reader must take one within it."""
MOST_CONNECTIONS: Final = 64
_NO_FILES_S: Final = 0.1
_PEERCRED: Final = struct.Struct("3i")


class Connection:
    """A desk's view of the connection: the frames before the last one, and whether the peer is still there."""

    def __init__(self, stream: Raw, row: str, peer_pid: int) -> None:
        self._stream = stream
        self.row = row
        self.peer_pid = peer_pid

    async def send(self, message: msgspec.Struct) -> None:
        """Send a frame of a stream.

        Raises:
            anyio.BrokenResourceError: the peer has gone; a desk may catch it and go on with its work.
            TimeoutError: the peer takes no bytes; treat it as gone.

        """
        await _send(self._stream, frame.pack(message))

    def peer_gone(self) -> bool:
        """Whether the peer has closed both directions; a peer that only stopped sending still waits."""
        poll = select.poll()
        poll.register(self._stream.socket.fileno(), 0)
        return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))


Desk = Callable[[Any, Connection], Awaitable[msgspec.Struct]]
"""Answers one request with the last frame; raises `Fault` for an `error`."""


class Server:
    """One listener, one peer, one union of requests."""

    def __init__(self, row: str, kinds: tuple[type[msgspec.Struct], ...], desk: Desk) -> None:
        self._row = row
        self._desk = desk
        self._decoder = frame.Decoder(kinds)
        self._open = 0

    async def serve(self, listening: socket.socket) -> None:
        """Accept until cancelled."""
        await serve_clients(listening, self._row, self._connection)

    async def _connection(self, stream: Raw) -> None:
        self._open += 1
        try:
            async with stream:
                await self._answer(stream)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError):
            # The peer left before its answer; what was done for it stays done.
            return
        finally:
            self._open -= 1

    async def _answer(self, stream: Raw) -> None:
        reply: msgspec.Struct
        try:
            peer_pid = check_peer(stream, self._row)
            if self._open > MOST_CONNECTIONS:
                raise Fault("busy")
            request = self._decoder.decode(await _receive_body(stream))
            connection = Connection(stream, self._row, peer_pid)
            trace.follow(request.trace)
            reply = Ok() if type(request) is Ping else await self._desk(request, connection)
            data = frame.pack(reply)
        except Fault as fault:
            data = frame.pack(error_of(fault))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise
        except Exception:  # noqa: BLE001  (whatever a request does, the daemon answers the next one)
            logger().exception("request-failed", socket=self._row)
            data = frame.pack(error_of(Fault("internal")))
        await _send(stream, data)


async def serve_clients(listening: socket.socket, row: str, serve: Callable[[Raw], Coroutine[Any, Any, None]]) -> None:
    """Accept until cancelled, each client served in a task of its own."""
    with listening:
        async with anyio.create_task_group() as tasks:
            pool = Pool(tasks, serve)
            while True:
                pool.start(await next_client(listening, row))


async def next_client(listening: socket.socket, row: str) -> Raw:
    """The next client. A daemon that has no file left for one (accept(2), EMFILE) waits until somebody leaves."""
    waits = False
    while True:
        try:
            return await raw.accept(listening)
        except OSError as error:
            if not waits:
                logger().warning("nobody-let-in", socket=row, reason=str(error))
            waits = True
            await anyio.sleep(_NO_FILES_S)


def check_peer(stream: Raw, row: str) -> int:
    """The process id of a peer of our own uid, or of root.

    Raises:
        Fault: `peer-refused`.

    """
    sent = stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size)
    pid, uid, _gid = _PEERCRED.unpack(sent)
    if uid not in (0, os.geteuid()):
        logger().warning("peer-refused", socket=row, uid=uid)
        raise Fault("peer-refused")
    return int(pid)


async def _send(stream: Raw, data: bytes) -> None:
    try:
        await raw.send_within(stream.socket, data, FRAME_SECONDS)
    except TimeoutError:
        raise
    except OSError as error:
        raise anyio.BrokenResourceError from error


async def _receive_body(stream: Raw) -> bytes:
    """The body of the one frame of a connection.

    Raises:
        Fault: the frame is empty, too large, or not whole in time.

    """
    by = raw.deadline(FRAME_SECONDS)
    try:
        buffer = bytearray(await stream.receive(by=by))
        while len(buffer) < frame.HEADER_BYTES:
            buffer += await stream.receive(by=by)
        end = frame.HEADER_BYTES + frame.body_length(bytes(buffer[: frame.HEADER_BYTES]))
        while len(buffer) < end:
            buffer += await stream.receive(min(frame.MAX_FRAME, end - len(buffer)), by)
        return bytes(buffer[frame.HEADER_BYTES : end])
    except (TimeoutError, anyio.EndOfStream):
        raise Fault("frame-torn") from None
