"""An upstream that does exactly what a test says, byte by byte: for what no proper server would do.

Features: over loopback TCP, TLS with a given certificate, or a Unix socket; reads one whole request a connection and
keeps it; then runs the test's script on the connection; counts connections, also those that send nothing; may speak
first.
"""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

Script = Callable[[socket.socket], None]
"""Writes the answer; the connection is closed after it."""


class Upstream:
    """A listening upstream; `requests` are the raw bytes of each request that came."""

    def __init__(self, script: Script, *, unix: Path | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.requests: list[bytes] = []
        self.connections = 0
        self.greeting = b""
        self._tls = tls
        if unix is not None:
            unix.parent.mkdir(parents=True, exist_ok=True)
            self._listening = socket.socket(socket.AF_UNIX)
            self._listening.bind(str(unix))
        else:
            self._listening = socket.socket()
            self._listening.bind(("127.0.0.1", 0))
        self._listening.listen(64)
        self.port = 0 if unix is not None else self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Its base_url over TCP; with TLS for the name `localhost`."""
        return f"https://localhost:{self.port}" if self._tls else f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Accept no more."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ssl.SSLError), contextlib.ExitStack() as stack:
            stack.enter_context(connection)
            if self._tls is not None:
                connection = stack.enter_context(self._tls.wrap_socket(connection, server_side=True))
            connection.settimeout(20)
            connection.sendall(self.greeting)
            request = _request(connection)
            if request is None:
                return
            self.requests.append(request)
            self.script(connection)


def _request(connection: socket.socket) -> bytes | None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while len(body) < int(lengths[0]) if lengths else False:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def answer(
    body: bytes, *, status: str = "200 OK", headers: str = "", content_type: str = "text/event-stream"
) -> Script:
    """A script: a whole answer with a length."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return lambda connection: connection.sendall(head.encode("latin-1") + body)


def chunked(pieces: list[bytes], *, headers: str = "", content_type: str = "text/event-stream") -> Script:
    """A script: an answer in chunks, one send each."""

    def write(connection: socket.socket) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n{headers}\r\n"
        connection.sendall(head.encode("latin-1"))
        for piece in pieces:
            if piece:
                connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\n\r\n")

    return write


@contextlib.contextmanager
def upstream(script: Script, *, unix: Path | None = None, tls: ssl.SSLContext | None = None) -> Iterator[Upstream]:
    """An upstream for a block."""
    found = Upstream(script, unix=unix, tls=tls)
    try:
        yield found
    finally:
        found.close()


USAGE: Final = (
    b'data: {"id":"c","model":"scripted-1","choices":[{"index":0,"delta":{"content":"Gr\xc3\xbc\xc3\x9fe"}}]}\n\n'
    b'data: {"id":"c","model":"scripted-1","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,'
    b'"prompt_tokens_details":{"cached_tokens":5}}}\n\ndata: [DONE]\n\n'
)
"""A small stream with usage: 11 in, 7 out, 5 of them cached."""
