"""What is decided is what leaves: brokerd is asked first, and what changes meanwhile ends the call."""

import array
import contextlib
import fcntl
import socket
import termios
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from proto.labels import DataClass
from proto.messages.broker import EgressAsk, SessionLabel
from proto.messages.wire import Ok
from tests.e2e.box import Box
from tests.egressd import http
from tests.fakes.egress_broker import FakeBroker
from tests.fakes.upstream import USAGE, answer, upstream

pytestmark = pytest.mark.measured

Destination = Callable[..., None]
Rows = Callable[..., list[Any]]


def test_brokerd_is_asked_before_anything_leaves(
    home: Path, box: Box, broker: FakeBroker, destination: Destination
) -> None:
    seen: list[tuple[int, int]] = []
    with upstream(answer(USAGE)) as up:

        def look(request: EgressAsk) -> None:
            time.sleep(0.05)
            seen.append((up.connections, len(up.requests)))

        broker.before_answer = look
        destination(up.url)
        assert http.post(home).status == 200
    assert seen == [(0, 0)]


def test_a_denial_is_a_permission_error_and_not_a_byte_leaves(
    home: Path, box: Box, broker: FakeBroker, destination: Destination, rows: Rows
) -> None:
    codes = {
        "ceiling": "ceiling",
        "session-not-open": "session-not-open",
        "destination": "destination-unknown",
        "rules-invalid": "rules-invalid",
        "of-another-version": "policy-invalid",
    }
    with upstream(answer(USAGE)) as up:
        destination(up.url)
        for reason, code in codes.items():
            broker.deny(reason)
            answered = http.post(home)
            assert (answered.status, answered.whole) == (403, True)
            assert (answered.error["type"], answered.error["code"]) == ("permission_error", code)
        time.sleep(0.05)
        assert up.connections == 0
    assert [(row.status, row.calls, row.model) for row in rows()] == [(403, len(codes), "scripted-1")]


def test_a_question_that_cannot_be_written_takes_no_other_along(
    home: Path, box: Box, broker: FakeBroker, destination: Destination
) -> None:
    """A model's name with half of a surrogate pair, which JSON can say and UTF-8 cannot."""
    broker.wait_s = 0.2
    bodies = [http.BODY] * 3 + [http.BODY.replace(b"scripted-1", b"\\ud800"), http.BODY]
    with upstream(answer(USAGE)) as up, ThreadPoolExecutor(len(bodies)) as pool:
        destination(up.url)
        answers = list(pool.map(lambda body: http.post(home, body=body), bodies))
    assert [answered.status for answered in answers] == [200, 200, 200, 500, 200]
    assert answers[3].error["code"] == "internal"
    assert box.alive("egressd")


def test_no_brokerd_is_a_denial(home: Path, box: Box, broker: FakeBroker, destination: Destination) -> None:
    broker.stop()
    with upstream(answer(USAGE)) as up:
        destination(up.url)
        answered = http.post(home)
        assert up.connections == 0
    assert (answered.status, answered.error["code"]) == (403, "brokerd-unreachable")


def test_a_label_that_rises_closes_what_is_now_too_low_before_it_is_answered(
    home: Path, box: Box, destination: Destination, rows: Rows
) -> None:
    begun, closed = threading.Event(), threading.Event()

    def script(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + USAGE)
        begun.set()
        if connection.recv(1) == b"":
            closed.set()

    with upstream(script) as up:
        destination(up.url)
        with http.connect(home) as client:
            client.sendall(http.request())
            assert begun.wait(10)
            box.ask("broker-egress", SessionLabel(session="chat-other", class_=DataClass.SECRET, untrusted=False), Ok)
            box.ask("broker-egress", SessionLabel(session=http.SESSION, class_=DataClass.PRIVATE, untrusted=True), Ok)
            assert not closed.wait(0.1)
            box.ask("broker-egress", SessionLabel(session=http.SESSION, class_=DataClass.SECRET, untrusted=True), Ok)
            assert closed.wait(1)
            answered = http.read(client)
    assert (answered.status, answered.whole) == (200, False)
    assert [(row.status, row.input_tokens) for row in rows()] == [(200, 11)]


def test_a_label_that_rises_stops_an_upload(home: Path, box: Box, destination: Destination) -> None:
    body = b'{"messages":"%s"}' % (b"a" * (20 << 20))
    with socket.create_server(("127.0.0.1", 0)) as listening, http.connect(home) as client:
        destination(f"http://127.0.0.1:{listening.getsockname()[1]}")
        client.sendall(http.request(body=body))
        connection, _ = listening.accept()
        with connection:
            connection.settimeout(10)
            received = len(connection.recv(1000))
            box.ask("broker-egress", SessionLabel(session=http.SESSION, class_=DataClass.SECRET, untrusted=False), Ok)
            with contextlib.suppress(ConnectionResetError):
                while piece := connection.recv(1 << 20):
                    received += len(piece)
            assert received < len(body)
        answered = http.read(client)
    assert (answered.status, answered.error["code"]) == (403, "ceiling")


def test_a_label_that_rises_while_brokerd_is_asked_refuses_the_call(
    home: Path, box: Box, broker: FakeBroker, destination: Destination
) -> None:
    def rise(request: EgressAsk) -> None:
        box.ask("broker-egress", SessionLabel(session=http.SESSION, class_=DataClass.SECRET, untrusted=False), Ok)

    broker.before_answer = rise
    with upstream(answer(USAGE)) as up:
        destination(up.url)
        answered = http.post(home)
        assert up.connections == 0
    assert (answered.status, answered.error["code"]) == (403, "ceiling")


def test_a_label_that_rises_while_the_connection_is_made_closes_it(
    home: Path, box: Box, broker: FakeBroker, destination: Destination
) -> None:
    """The destination has accepted, and says nothing in answer to the greeting of TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listening, http.connect(home) as client:
        destination(f"https://localhost:{listening.getsockname()[1]}")
        client.sendall(http.request())
        connection, _ = listening.accept()
        with connection:
            connection.settimeout(10)
            assert connection.recv(1) == b"\x16"
            assert len(broker.asked) == 1
            box.ask("broker-egress", SessionLabel(session=http.SESSION, class_=DataClass.SECRET, untrusted=False), Ok)
            while connection.recv(1 << 16):
                pass
        answered = http.read(client)
    assert (answered.status, answered.error["code"]) == (403, "ceiling")


def test_a_destination_that_is_changed_while_the_body_comes_is_the_one_that_is_decided_on(
    home: Path, box: Box, broker: FakeBroker, destination: Destination
) -> None:
    data = http.request()
    with upstream(answer(USAGE)) as old, upstream(answer(USAGE)) as new, http.connect(home) as client:
        destination(old.url)
        client.sendall(data[:-10])
        _wait_read(client)
        destination(new.url, ceiling="secret")
        client.sendall(data[-10:])
        assert http.read(client).status == 200
        assert (old.connections, len(new.requests)) == (0, 1)
        destination(new.url)
        with http.connect(home) as other:
            other.sendall(data[:-10])
            _wait_read(other)
            (home / "grants.toml").write_text("")
            other.sendall(data[-10:])
            assert http.read(other).error["code"] == "destination-unknown"
    assert len(broker.asked) == 1


def _wait_read(client: socket.socket) -> None:
    """Until everything that was sent has been read by the other side, and a little longer."""
    left = array.array("i", [1])
    while left[0]:
        fcntl.ioctl(client, termios.TIOCOUTQ, left)
        time.sleep(0.02)
    time.sleep(0.1)


@pytest.mark.parametrize("change", ["another", "gone and back"])
def test_a_destination_that_is_changed_while_brokerd_is_asked_ends_the_call(
    home: Path, box: Box, broker: FakeBroker, destination: Destination, change: str
) -> None:
    with upstream(answer(USAGE)) as old, upstream(answer(USAGE)) as new:

        def write(request: EgressAsk) -> None:
            destination(new.url, ceiling="secret")
            if change == "gone and back":
                destination(old.url)

        destination(old.url)
        broker.before_answer = write
        answered = http.post(home)
        assert (old.connections, new.connections) == (0, 0)
    assert (answered.status, answered.error["code"]) == (403, "rules-invalid")
    assert answered.error["message"].startswith("refused: grants.toml was changed while the call was decided")
