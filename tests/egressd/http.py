"""A client of egressd's HTTP socket that hides nothing: raw bytes in, raw bytes out, and a strict reading of them."""

import json
import socket
from pathlib import Path
from typing import Any, Final, NamedTuple

import h11

from egressd.meter.usage import Meter
from egressd.wire.answer import Answer
from egressd.wire.http import Incoming, Request
from egressd.wire.redact import Redactor
from proto import sockets

SESSION: Final = "chat-20261130-120000-abcdef"
BODY: Final = b'{"model":"scripted-1","stream":true,"messages":[]}'


class Response(NamedTuple):
    """An answer read by h11; `whole` says that it ended as HTTP says it must."""

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool
    raw: bytes

    @property
    def error(self) -> dict[str, Any]:
        """The error of a refusal."""
        found: dict[str, Any] = json.loads(self.body)["error"]
        return found


def request(
    path: str = "/up/v1/chat/completions",
    *,
    method: str = "POST",
    session: str | None = SESSION,
    headers: str = "",
    body: bytes = BODY,
) -> bytes:
    """The bytes of a request."""
    named = f"X-Boxmaker-Session: {session}\r\n" if session is not None else ""
    length = f"Content-Length: {len(body)}\r\n" if method == "POST" else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: egress\r\n{named}{length}{headers}\r\n"
    return head.encode("latin-1") + (body if method == "POST" else b"")


def connect(home: Path) -> socket.socket:
    """A connection to the HTTP socket of a home."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(20)
    client.connect(str(sockets.socket("loop-egress").at(home)))
    return client


def exchange(home: Path, data: bytes) -> Response:
    """Send bytes and read the answer to its end."""
    with connect(home) as client:
        client.sendall(data)
        return read(client, data.split(b" ", 1)[0].decode("latin-1"))


def post(home: Path, path: str = "/up/v1/chat/completions", **parts: Any) -> Response:
    """Send a request made of parts."""
    return exchange(home, request(path, **parts))


def read(client: socket.socket, method: str = "POST") -> Response:
    """Read an answer to the end of the connection."""
    raw = bytearray()
    try:
        while piece := client.recv(65536):
            raw += piece
    except ConnectionResetError:
        pass
    return parse(bytes(raw), method)


def empty(method: str = "POST", version: str = "1.1") -> bytes:
    """A request without a body."""
    return f"{method} / HTTP/{version}\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode()


def relayed(meter: Meter, redactor: Redactor, method: str = "POST", version: str = "1.1") -> Answer:
    """A call whose request has been read from the client and sent to the upstream."""
    client = Incoming(1 << 10)
    client.feed(empty(method, version))
    request = Request(method.encode(), b"/", [(b"Host", b"x"), (b"Content-Length", b"0")])
    answer = Answer(client, request, meter, redactor)
    answer.to_upstream()
    answer.uploaded = True
    return answer


def parse(raw: bytes, method: str = "POST") -> Response:
    """Read the bytes of an answer; `whole` is false where they break off."""
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method=method if method.isalpha() else "GET", target="/", headers=[("Host", "x")]))
    http.send(h11.EndOfMessage())
    http.receive_data(raw)
    http.receive_data(b"")
    status, headers, body, whole = 0, {}, bytearray(), False
    try:
        while not isinstance(event := http.next_event(), h11.ConnectionClosed | type(h11.PAUSED)):
            match event:
                case h11.Response():
                    status = event.status_code
                    headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
                case h11.Data(data=data):
                    body += data
                case h11.EndOfMessage():
                    whole = True
                    break
                case _:
                    pass
    except h11.RemoteProtocolError:
        whole = False
    return Response(status, headers, bytes(body), whole, raw)
