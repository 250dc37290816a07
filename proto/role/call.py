"""Asking another daemon over its framed socket, from anyio: one request, one reply or a stream of them.

A connect is tried again within the time that the caller gives; a request that was sent is never sent twice.
A request takes the trace along that is under way.
"""

import math
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec

from proto import frame
from proto.faults import Fault
from proto.messages.wire import Traced
from proto.role import raw, trace
from proto.role.replies import decoder, reply

_RETRY_SECONDS = 0.1
_CROWDED_SECONDS = 5.0
"""A daemon that many connect to at once is waited for so long in any case."""


async def call(
    path: Path,
    request: msgspec.Struct,
    *replies: type[msgspec.Struct],
    timeout_s: float = 30.0,
    connect_within_s: float = 0.0,
    unreachable: str = "peer-unreachable",
) -> Any:
    """The one reply to a request.

    Raises:
        Fault: what the daemon answered as an `error`; `unreachable` when it does not answer in time, or hangs up;
            `reply-unexpected` when the answer is none of `replies`.

    """
    with await _asked(path, request, timeout_s, connect_within_s, unreachable) as connection:
        body = await _body(connection, bytearray(), timeout_s, unreachable)
    if body is None:
        raise Fault(unreachable)
    return reply(decoder(replies), body)


@asynccontextmanager
async def stream(
    path: Path,
    request: msgspec.Struct,
    *replies: type[msgspec.Struct],
    timeout_s: float | None = 30.0,
    connect_within_s: float = 0.0,
    unreachable: str = "peer-unreachable",
) -> AsyncIterator[AsyncIterator[Any]]:
    """The replies to a request, until the daemon closes the connection; `timeout_s` bounds the wait for each.

    Leaving the block closes the connection. Raises as `call`, from the block's entry or from the iteration.
    """
    with await _asked(path, request, timeout_s, connect_within_s, unreachable) as connection:
        yield _replies(connection, decoder(replies), timeout_s, unreachable)


async def _replies(
    connection: socket.socket,
    decoding: frame.Decoder,
    timeout_s: float | None,
    unreachable: str,
) -> AsyncIterator[Any]:
    buffer = bytearray()
    while True:
        body = await _body(connection, buffer, timeout_s, unreachable)
        if body is None:
            return
        yield reply(decoding, body)


async def _body(
    connection: socket.socket, buffer: bytearray, timeout_s: float | None, unreachable: str
) -> bytes | None:
    """The body of the next frame, or None when the daemon has closed between two."""
    by = _deadline(timeout_s)
    try:
        while (end := _end(buffer)) is None or len(buffer) < end:
            if not buffer:
                # What was just asked is not answered yet; and between two replies others have their turn.
                await raw.readable(connection, by)
            piece = await raw.receive(connection, by=by)
            if not piece:
                if buffer:
                    raise Fault(unreachable)
                return None
            buffer += piece
    except OSError:
        raise Fault(unreachable) from None
    body = bytes(buffer[frame.HEADER_BYTES : end])
    del buffer[:end]
    return body


def _end(buffer: bytearray) -> int | None:
    if len(buffer) < frame.HEADER_BYTES:
        return None
    return frame.HEADER_BYTES + frame.body_length(bytes(buffer[: frame.HEADER_BYTES]))


def _deadline(timeout_s: float | None) -> float:
    return math.inf if timeout_s is None else raw.deadline(timeout_s)


async def _asked(
    path: Path, request: msgspec.Struct, timeout_s: float | None, within_s: float, unreachable: str
) -> socket.socket:
    """A connection on which a request has been sent, in no more time than its answer may take."""
    connection = await _connect(path, within_s, unreachable)
    try:
        data = frame.pack(trace.joined(request) if isinstance(request, Traced) else request)
        try:
            await raw.send(connection, data, _deadline(timeout_s))
        except TimeoutError:
            raise Fault(unreachable) from None
        except OSError:
            # The daemon may have refused the peer or the frame before it was read, and its answer says which.
            pass
    except BaseException:
        connection.close()
        raise
    return connection


async def _connect(path: Path, within_s: float, unreachable: str) -> socket.socket:
    """A connection. The socket is spoken to as it is: a stream around it costs more than most questions do."""
    began = raw.deadline(0)
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            # A connect to a Unix socket is done at once, or fails: EAGAIN says that too many wait (connect(2)).
            connection.connect(str(path))
        except OSError as error:
            connection.close()
            patience_s = max(within_s, _CROWDED_SECONDS) if isinstance(error, BlockingIOError) else within_s
            if raw.deadline(_RETRY_SECONDS) > began + patience_s:
                raise Fault(unreachable) from None
            await anyio.sleep(_RETRY_SECONDS)
        else:
            return connection
