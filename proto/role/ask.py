"""Asking a daemon over its framed socket, blocking, with few imports: for a command that must start at once."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from proto import frame
from proto.faults import Fault
from proto.role.replies import decoder, reply


def ask(
    path: Path,
    request: msgspec.Struct,
    *replies: type[msgspec.Struct],
    timeout_s: float | None = 30.0,
) -> Any:
    """The one reply to a request.

    Raises:
        Fault: what the daemon answered as an `error`; `peer-unreachable`; `reply-unexpected`.

    """
    for answer in ask_stream(path, request, *replies, timeout_s=timeout_s):
        return answer
    raise Fault("peer-unreachable", f"{path}: the daemon hung up")


def ask_stream(
    path: Path,
    request: msgspec.Struct,
    *replies: type[msgspec.Struct],
    timeout_s: float | None = 30.0,
) -> Iterator[Any]:
    """The replies until the daemon closes; `timeout_s` bounds the wait for each. Raises as `ask`."""
    with _connected(path, timeout_s) as connection:
        # A broken pipe: refused before it was read, and the answer says why.
        with contextlib.suppress(BrokenPipeError):
            connection.sendall(frame.pack(request))
        try:
            while header := _exactly(connection, frame.HEADER_BYTES):
                yield reply(decoder(replies), _exactly(connection, frame.body_length(header)))
        except (TimeoutError, ConnectionError) as error:
            raise Fault("peer-unreachable", f"{path}: {str(error) or 'no answer'}") from None


def _connected(path: Path, timeout_s: float | None) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    connection.settimeout(timeout_s)
    try:
        connection.connect(str(path))
    except OSError as error:
        connection.close()
        raise Fault("peer-unreachable", f"{path}: {error.strerror or error}") from None
    return connection


def _exactly(connection: socket.socket, count: int) -> bytes:
    """Exactly so many bytes; none at all when the daemon has closed between two frames."""
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            if data or count != frame.HEADER_BYTES:
                raise ConnectionError("the daemon hung up in the middle of an answer")
            return b""
        data += piece
    return bytes(data)
