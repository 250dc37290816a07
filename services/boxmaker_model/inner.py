"""One request to llama.cpp's own listener: HTTP over its Unix socket, read in steps so short that none is a wait.

Closing the connection is what makes llama.cpp drop a generation, in whatever state it is: it looks after every token
and every batch of a prompt. Its functions could only be stopped from inside an event, and a slow generation has none.
"""

import select
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import h11

_STEP_MS: Final = 100
_CONNECT_SECONDS: Final = 5.0
_RECEIVE_BYTES: Final = 64 * 1024


class InnerError(Exception):
    """llama.cpp's listener does not answer, or not with HTTP; the message says which."""


class Answer:
    """An answer that is being read: `status` once the first piece is there."""

    def __init__(self, inner_socket: Path, target: str, body: bytes, ended: Callable[[], bool]) -> None:
        """Describe the request; `ended` is asked every tenth of a second, and ends the reading by closing."""
        self._inner_socket = inner_socket
        self._ended = ended
        self._http = h11.Connection(h11.CLIENT)
        head = h11.Request(
            method="POST",
            target=target,
            headers=[
                ("Host", "localhost"),
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
                ("Connection", "close"),
            ],
        )
        events = (head, h11.Data(data=body), h11.EndOfMessage())
        self._request = b"".join(self._http.send(event) or b"" for event in events)
        self.status = 0

    def pieces(self) -> Iterator[bytes]:
        """Send the request and give the body as it comes, until its end or until `ended`.

        Raises:
            InnerError: the connection failed, or what came is no HTTP.

        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
            try:
                connection.settimeout(_CONNECT_SECONDS)
                connection.connect(str(self._inner_socket))
                connection.sendall(self._request)
                yield from self._receive(connection)
            except (OSError, h11.ProtocolError) as error:
                raise InnerError(str(error)) from None

    def _receive(self, connection: socket.socket) -> Iterator[bytes]:
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        while not self._ended():
            match self._http.next_event():
                case h11.NEED_DATA:
                    if poll.poll(_STEP_MS):
                        self._http.receive_data(connection.recv(_RECEIVE_BYTES))
                case h11.Response(status_code=status):
                    self.status = status
                case h11.Data(data=data):
                    yield bytes(data)
                case _:
                    return
