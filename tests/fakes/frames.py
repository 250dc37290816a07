"""A framed socket served by threads, for the fakes of daemons: it works beside any test, with a loop or without one."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from proto import frame
from proto.faults import Fault
from proto.messages.wire import Ok, Ping, error_of

Send = Callable[[msgspec.Struct], None]


class FramedFake:
    """The base of a fake daemon; it listens inside `with`. `answer` gives the last frame, or raises a `Fault`."""

    def __init__(self, path: Path, kinds: tuple[type[msgspec.Struct], ...]) -> None:
        self._path = path
        self._decoder = frame.Decoder((Ping, *kinds))
        self._closing = False

    def answer(self, request: Any, send: Send) -> msgspec.Struct:
        """The last frame of the answer; `send` sends one before it."""
        raise AssertionError(request)

    def __enter__(self) -> Any:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self._path))
        self._listening.listen(64)
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listening.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(30)
            try:
                header = self._exactly(connection, frame.HEADER_BYTES)
                request = self._decoder.decode(self._exactly(connection, frame.body_length(header)))

                def send(message: msgspec.Struct) -> None:
                    connection.sendall(frame.pack(message))

                try:
                    send(Ok() if isinstance(request, Ping) else self.answer(request, send))
                except Fault as fault:
                    send(error_of(fault))
            except OSError:
                # The client has gone.
                return

    @staticmethod
    def _exactly(connection: socket.socket, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = connection.recv(count - len(data))
            if not piece:
                raise ConnectionError
            data += piece
        return bytes(data)
