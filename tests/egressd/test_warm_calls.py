"""Calls over TLS one after another: the connection of a session is used again, and only when it may be."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.box import Box
from tests.egressd import own
from tests.egressd.certificates import Authority
from tests.egressd.test_authorised import SAID, rules

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n%s\r\n{}"
CALL = own.request("/v1/chat/completions", SAID)
IDLE_S = 0.4
"""Longer than the first moment of a kept connection."""


class Server:
    """A server over TLS that answers any number of requests on a connection; `served` counts them by connection."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self.served: list[int] = []
        self.more = b""
        self.after = b""
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://localhost:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, raw: socket.socket) -> None:
        with contextlib.suppress(OSError), self._tls.wrap_socket(raw, server_side=True) as connection:
            number = len(self.served)
            self.served.append(0)
            data = b""
            while piece := connection.recv(65536):
                data += piece
                if data.endswith(SAID):
                    self.served[number] += 1
                    data = b""
                    connection.sendall(ANSWER % self.more)
                    if self.after:
                        time.sleep(0.05)
                        connection.sendall(self.after)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def egressd_toml(authority: Authority) -> str:
    return f'[tls]\nca_file = "{authority.ca_file}"\n'


@pytest.fixture
def server(authority: Authority) -> Iterator[Server]:
    found = Server(authority.server("DNS:localhost"))
    yield found
    found.close()


def _calls(box: Box, *sessions: str) -> None:
    for session in sessions:
        answered = own.exchange(own.opened(box, session, auth="key"), CALL)
        assert (answered.status, answered.body, answered.whole) == (200, b"{}", True)
        assert answered.headers["connection"] == "close"
        time.sleep(IDLE_S)


def test_the_calls_of_a_session_share_a_connection(home: Path, box: Box, server: Server) -> None:
    rules(home, base_url=server.url, credential="UP_KEY")
    _calls(box, "run-a", "run-a", "run-b", "run-a", "run-b")
    assert sorted(server.served) == [2, 3]


def test_a_server_that_says_close_or_says_more_is_asked_on_a_new_one(home: Path, box: Box, server: Server) -> None:
    rules(home, base_url=server.url, credential="UP_KEY")
    server.more = b"Connection: close\r\n"
    _calls(box, "run-a", "run-a")
    assert server.served == [1, 1]
    server.more, server.after = b"", ANSWER % b""
    _calls(box, "run-a", "run-a")
    assert server.served == [1, 1, 1, 1]
