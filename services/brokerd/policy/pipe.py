"""The pipe between brokerd and a policy worker: a 4-byte big-endian length, then that many bytes of JSON."""

import json
import socket
import struct
from typing import Any, Final

LENGTH: Final = struct.Struct(">I")


def pack(value: dict[str, Any]) -> bytes:
    """The bytes of a message."""
    body = json.dumps(value, ensure_ascii=False).encode()
    return LENGTH.pack(len(body)) + body


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """The next message, blocking; None when the other end has closed."""
    header = _exactly(connection, LENGTH.size)
    body = _exactly(connection, LENGTH.unpack(header)[0]) if header else None
    if body is None:
        return None
    value = json.loads(body)
    return value if isinstance(value, dict) else None


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(min(count - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return bytes(data)
