"""A session's own socket as launcherd and a program behind it see it: opened over frames, spoken to in HTTP."""

import json
import socket
from pathlib import Path
from typing import Any, Final

from proto.messages.egress import EgressOpen, EgressOpened
from tests.e2e.box import Box
from tests.egressd.http import Response, read

SESSION: Final = "run-own-1"


def opened(box: Box, session: str = SESSION, **parts: Any) -> Path:
    """The socket of a session, opened for the destination `up` unless said otherwise."""
    says = {"destination": "up", "auth": "none", "harness": "claude", **parts}
    reply: EgressOpened = box.ask("launcher-egress", EgressOpen(session=session, **says), EgressOpened)
    return Path(reply.path)


def connect(path: Path) -> socket.socket:
    """A connection."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(20)
    try:
        client.connect(str(path))
    except OSError:
        client.close()
        raise
    return client


def request(target: str, body: bytes = b"", *, method: str = "POST", headers: str = "") -> bytes:
    """The bytes of a request."""
    length = f"Content-Length: {len(body)}\r\n" if method == "POST" else ""
    return f"{method} {target} HTTP/1.1\r\nHost: x\r\n{length}{headers}\r\n".encode("latin-1") + body


def exchange(path: Path, data: bytes) -> Response:
    """Send bytes and read the answer to its end."""
    with connect(path) as client:
        client.sendall(data)
        return read(client, data.split(b" ", 1)[0].decode("latin-1"))


def mcp(path: Path, message: Any, *, method: str = "POST", headers: str = "", version: str | None = None) -> Response:
    """One MCP request; `message` is JSON, or raw bytes."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    told = f"MCP-Protocol-Version: {version}\r\n" if version else ""
    kind = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
    return exchange(path, request("/mcp", body, method=method, headers=(headers or kind) + told))
