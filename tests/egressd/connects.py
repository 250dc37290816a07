"""A client that asks a session's socket for tunnels, byte by byte."""

import contextlib
import socket
import time
from collections.abc import Callable
from pathlib import Path

from tests.egressd import http


def tunnelled(
    path: Path, authority: str, *, behind: bytes = b"", headers: str = ""
) -> tuple[socket.socket, http.Response]:
    """Ask for a tunnel on a session's socket; the connection, and what was answered."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(str(path))
    client.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{headers}\r\n".encode() + behind)
    raw = b""
    while b"\r\n\r\n" not in raw:
        piece = client.recv(1)
        assert piece, raw
        raw += piece
    if raw == b"HTTP/1.1 200 Connection established\r\n\r\n":
        return client, http.Response(200, {}, b"", whole=True, raw=raw)
    return client, http.parse(raw + rest(client), "GET")


def rest(client: socket.socket) -> bytes:
    """All that still comes; a reset is an end as well."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := client.recv(65536):
            found += piece
    return found


def until(true: Callable[[], object]) -> None:
    """Wait for something that happens in another thread or process."""
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)
