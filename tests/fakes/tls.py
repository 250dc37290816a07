"""A server on a loopback port that does what a test says with each connection; over real TLS if it is to.

Features: counts connections; keeps every raw byte that came, where the script reads through it; real TLS by OpenSSL with
the names of the hellos that it saw; answers in capitals; may be made to ask for a second hello.
"""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

Script = Callable[[socket.socket], None]


class Server:
    """A listening server; what goes wrong in a script is kept as text."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.connections = 0
        self.problems: list[str] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = self._listening.accept()[0]
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(20)
            try:
                self.script(connection)
            except OSError as error:
                self.problems.append(str(getattr(error, "reason", None) or error.strerror or error))


class Secured:
    """A script: TLS with a certificate, then another script within; `names` are those of the hellos."""

    def __init__(self, context: ssl.SSLContext, within: Callable[[ssl.SSLSocket], None]) -> None:
        self.names: list[str | None] = []
        self.versions: list[str | None] = []
        self._context = context
        self._within = within
        context.sni_callback = lambda _, name, __: self.names.append(name)

    def __call__(self, connection: socket.socket) -> None:
        """Serve one connection."""
        with self._context.wrap_socket(connection, server_side=True) as secured:
            self.versions.append(secured.version())
            self._within(secured)


def capitals(connection: socket.socket) -> None:
    """Answer whatever comes in capitals, to its end."""
    while data := connection.recv(65536):
        connection.sendall(data.upper())
    if isinstance(connection, ssl.SSLSocket):
        with contextlib.suppress(OSError):
            connection.unwrap()


@contextlib.contextmanager
def server(script: Script) -> Iterator[Server]:
    """A server for a block."""
    found = Server(script)
    try:
        yield found
    finally:
        found.close()
