"""What comes in at the HTTP socket: bounded in size and time, checked, and never smuggled on."""

import contextlib
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.box import Box
from tests.egressd import http
from tests.egressd.certificates import Authority
from tests.fakes.egress_broker import FakeBroker
from tests.fakes.upstream import USAGE, answer, upstream

pytestmark = pytest.mark.measured

Destination = Callable[..., None]

GOOD = http.request()
HEAD = b"POST /up/v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
NAMED = HEAD + f"X-Boxmaker-Session: {http.SESSION}\r\n".encode()


@pytest.fixture
def egressd_toml() -> str:
    return "[relay]\nconnections = 64\nhead_s = 0.5\nbody_s = 0.5\nbody_bytes = 100_000\nidle_s = 1.0\nanswer_s = 1.0\nstall_s = 0.5\ndrain_s = 0.5\n"


REFUSED = [
    (HEAD + b"Content-Length: 2\r\n\r\n{}", 400),
    (HEAD + b"X-Boxmaker-Session: evil\r\nContent-Length: 2\r\n\r\n{}", 400),
    (HEAD + b"X-Boxmaker-Session: chat-a/../../b\r\nContent-Length: 2\r\n\r\n{}", 400),
    (NAMED + f"X-Boxmaker-Session: {http.SESSION}\r\nContent-Length: 2\r\n\r\n{{}}".encode(), 400),
    (NAMED + b"X-Boxmaker-Session: chat-other\r\nContent-Length: 2\r\n\r\n{}", 400),
    (NAMED + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400),
    (NAMED + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", 400),
    (NAMED + b"Content-Length: -1\r\n\r\n", 400),
    (NAMED + b"Content-Length: +2\r\n\r\n{}", 400),
    (NAMED + b"Content-Length: 0x2\r\n\r\n{}", 400),
    (NAMED + b"Transfer-Encoding: chunked, gzip\r\n\r\n", 400),
    (NAMED + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400),
    (NAMED + b"Transfer-Encoding : chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400),
    (NAMED + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400),
    (NAMED + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}X\r\n0\r\n\r\n", 400),
    (NAMED + b"X: a\rb\r\nContent-Length: 2\r\n\r\n{}", 400),
    (NAMED + b"X: a\x00b\r\nContent-Length: 2\r\n\r\n{}", 400),
    (NAMED + b"\x00: b\r\nContent-Length: 2\r\n\r\n{}", 400),
    (b"POST /up/v1/chat/completions HTTP/1.1\r\nX-Boxmaker-Session: chat-1\r\n\r\n", 400),
    (b"POST /up/v1/chat/completions x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"POST /up/v1/chat/completions HTTP/3.0\r\nHost: x\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    (NAMED + b"X: " + b"a" * 100_000 + b"\r\n\r\n", 413),
    (NAMED + b"X-Yz: y\r\n" * 7_000 + b"\r\n", 413),
    (NAMED + b"Content-Length: 100001\r\n\r\n" + b"a" * 100_001, 413),
    (NAMED + b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 2\r\n\r\n{}", 400),
    (NAMED + b"Content-Type: application/json; charset=utf-7\r\nContent-Length: 2\r\n\r\n{}", 400),
    (NAMED + b"Content-Type: application/json\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 400),
    (GOOD.replace(b"completions", b"completions?model=evil", 1), 400),
    (GOOD.replace(b"completions", b"completions?alt=sse&%24Fields=evil", 1), 400),
    (NAMED + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 2_000 + b"0\r\n\r\n", 400),
    (NAMED + b"Transfer-Encoding: chunked\r\n\r\n" + (b"10000\r\n" + b"a" * 65_536 + b"\r\n") * 2 + b"0\r\n\r\n", 413),
]


def test_what_is_refused_reaches_nobody(home: Path, box: Box, broker: FakeBroker, destination: Destination) -> None:
    with upstream(answer(USAGE)) as up:
        destination(up.url)
        for data, status in REFUSED:
            answered = http.exchange(home, data)
            assert (answered.status, answered.whole) == (status, True), data[:300]
            assert answered.error["type"] == "invalid_request_error"
            assert "evil" not in answered.error["message"]
        assert http.exchange(home, GOOD).body == USAGE
        assert up.connections == 1
    assert len(broker.asked) == 1
    assert box.alive("egressd")


def test_a_second_request_behind_the_first_is_not_read(
    home: Path, box: Box, broker: FakeBroker, destination: Destination
) -> None:
    with upstream(answer(USAGE)) as up:
        destination(up.url)
        answered = http.exchange(home, GOOD + GOOD)
        assert (answered.body, answered.raw.count(b"HTTP/1.1")) == (USAGE, 1)
        assert len(up.requests) == 1


def test_chunked_bodies_and_a_client_that_waits_to_send(home: Path, box: Box, destination: Destination) -> None:
    with upstream(answer(USAGE)) as up:
        destination(up.url)
        assert (
            http.exchange(home, NAMED + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\nT: x\r\n\r\n").body
            == USAGE
        )
        assert up.requests[0].endswith(b"\r\n\r\n{}")
        assert b"chunked" not in up.requests[0]
        with http.connect(home) as client:
            client.sendall(NAMED + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 100 ")
            client.sendall(b"{}")
            assert http.read(client).body == USAGE
        assert up.requests[1].endswith(b"\r\n\r\n{}")
        assert b"xpect" not in up.requests[1]


def test_a_slow_client_is_told_and_let_go(home: Path, box: Box, broker: FakeBroker) -> None:
    for start in (
        b"",
        b"POST /up",
        NAMED + b"Content-Length: 10\r\n\r\nabc",
        NAMED + b"Transfer-Encoding: chunked\r\n\r\n",
    ):
        with http.connect(home) as client:
            client.sendall(start)
            began = time.monotonic()
            answered = http.read(client)
            assert time.monotonic() - began < 10
            assert answered.status in (400, 404)
    assert broker.asked == []


def test_many_slow_clients_do_not_keep_others_out_for_long(home: Path, box: Box, destination: Destination) -> None:
    with upstream(answer(USAGE)) as up, contextlib.ExitStack() as stack:
        destination(up.url)
        for _ in range(64):
            stack.enter_context(http.connect(home)).sendall(b"POST /up/v1")
        answered = http.exchange(home, GOOD)
        assert (answered.status, answered.error["code"]) == (503, "busy")
        time.sleep(2.0)
        assert http.exchange(home, GOOD).body == USAGE


def test_clients_that_leave_anywhere_cost_nothing(home: Path, box: Box, destination: Destination) -> None:
    with upstream(answer(USAGE)) as up:
        destination(up.url)
        for end in range(0, len(GOOD), 7):
            with http.connect(home) as client:
                client.sendall(GOOD[:end])
        assert http.exchange(home, GOOD).body == USAGE


def test_an_upstream_that_stalls_is_given_up(home: Path, box: Box, destination: Destination) -> None:
    def stall(connection: socket.socket) -> None:
        connection.recv(1)

    def stall_later(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n")
        connection.recv(1)

    with upstream(stall) as up:
        destination(up.url)
        answered = http.exchange(home, GOOD)
        assert (answered.status, answered.error["code"]) == (502, "upstream-unreachable")
        up.script = stall_later
        answered = http.exchange(home, GOOD)
    assert (answered.status, answered.body, answered.whole) == (200, b"data: 1\n\n", False)


def test_reading_on_for_a_client_that_left_is_bounded(home: Path, box: Box, destination: Destination) -> None:
    ended: list[float] = []

    def drip(connection: socket.socket) -> None:
        began = time.monotonic()
        try:
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while time.monotonic() - began < 15:
                connection.sendall(b": keep-alive\n\n")
                time.sleep(0.01)
        finally:
            ended.append(time.monotonic() - began)

    with upstream(drip) as up:
        destination(up.url)
        with http.connect(home) as client:
            client.sendall(GOOD)
            client.recv(10)
        deadline = time.monotonic() + 10
        while not ended and time.monotonic() < deadline:
            time.sleep(0.05)
    assert ended
    assert ended[0] < 10


def test_an_upstream_that_answers_before_it_took_the_body(home: Path, box: Box, destination: Destination) -> None:
    refusal = json.dumps({"error": {"message": "too large"}}).encode()

    class Early:
        def __call__(self, connection: socket.socket) -> None:
            connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\n\r\n%s" % (len(refusal), refusal))

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    with listening:
        destination(f"http://127.0.0.1:{listening.getsockname()[1]}")
        with http.connect(home) as client:
            client.sendall(http.request(body=b'{"messages":"%s"}' % (b"a" * 99_000)))
            connection, _ = listening.accept()
            with connection:
                connection.recv(10)
                Early()(connection)
                answered = http.read(client)
    assert (answered.status, answered.body) == (413, refusal)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


class TestOverTls:
    """A destination behind an authority of the owner's own."""

    @pytest.fixture
    def egressd_toml(self, authority: Authority) -> str:
        return f'[tls]\nca_file = "{authority.ca_file}"\n'

    def test_the_certificate_and_its_name_are_checked(
        self, home: Path, box: Box, destination: Destination, authority: Authority
    ) -> None:
        with upstream(answer(USAGE), tls=authority.server("DNS:localhost")) as up:
            destination(up.url)
            assert http.exchange(home, GOOD).body == USAGE
            destination(up.url.replace("localhost", "127.0.0.1"))
            answered = http.exchange(home, GOOD)
            assert (answered.status, answered.error["code"]) == (502, "upstream-unreachable")
            assert "certificate" in answered.error["message"]
            assert len(up.requests) == 1
