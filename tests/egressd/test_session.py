"""A session's own socket over the real daemon: opened and closed by a launcherd, used by programs, back after a crash."""

import os
import socket
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proto.faults import Fault
from proto.messages.egress import EgressClose, EgressOpen, EgressOpened, HarnessUsage
from proto.messages.wire import Ok
from tests.e2e.box import Box, running
from tests.egressd.conftest import KEY
from tests.egressd.http import BODY, read
from tests.egressd.own import SESSION, connect, exchange, opened, request
from tests.fakes.egress_broker import FakeBroker
from tests.fakes.upstream import USAGE, Upstream, answer, upstream

CALL = request("/v1/chat/completions", BODY, headers=f"Authorization: Bearer {KEY}x\r\n")
RULES = """
[destinations.up]
base_url = "{url}"
api = ["openai-chat", "anthropic"]
auth = ["none", "key"]
credential = "UP_KEY"
ceiling = "private"
"""


@pytest.fixture(scope="module")
def running_box() -> Iterator[tuple[Box, FakeBroker]]:
    with tempfile.TemporaryDirectory(prefix="bx") as folder:
        home = Path(folder)
        (home / "config").mkdir()
        (home / "config" / "egressd.toml").write_text("[session]\nconnections = 3\n")
        broker = FakeBroker(home)
        with running(home, "egressd", environ={"UP_KEY": KEY}) as box:
            yield box, broker
        broker.stop()


@pytest.fixture
def box(running_box: tuple[Box, FakeBroker]) -> Iterator[Box]:
    box, broker = running_box
    yield box
    for folder in (box.home / "run" / "sessions").glob("*"):
        _close(box, folder.name)
    broker.asked.clear()
    broker.allow, broker.reasons = True, ["granted"]


@pytest.fixture
def broker(running_box: tuple[Box, FakeBroker]) -> FakeBroker:
    return running_box[1]


@pytest.fixture
def up(box: Box) -> Iterator[Upstream]:
    with upstream(answer(USAGE)) as found:
        (box.home / "grants.toml").write_text(RULES.format(url=found.url))
        yield found


def _close(box: Box, session: str = SESSION) -> None:
    assert box.ask("launcher-egress", EgressClose(session=session), Ok) == Ok()


def test_whose_a_call_is_and_where_it_goes_says_the_socket(
    box: Box, up: Upstream, broker: FakeBroker, rows: Callable[..., list[Any]]
) -> None:
    path = opened(box, "run-whose", auth="key")
    told = request(
        "/v1/chat/completions?a=b", BODY, headers="X-Boxmaker-Session: chat-other\r\nAuthorization: Bearer x\r\n"
    )
    assert exchange(path, told).body == USAGE
    (sent,) = up.requests
    head = sent.split(b"\r\n\r\n")[0]
    assert head.startswith(b"POST /v1/chat/completions?a=b HTTP/1.1\r\n")
    assert f"Authorization: Bearer {KEY}".encode() in head
    assert b"chat-other" not in head
    assert [(one.session, one.destination, one.path) for one in broker.asked] == [
        ("run-whose", "up", "/v1/chat/completions")
    ]
    (row,) = rows(session="run-whose")
    assert (row.status, row.input_tokens, row.output_tokens) == (200, 11, 7)
    assert exchange(path, request("/up/v1/chat/completions", BODY)).status == 404


def test_what_is_opened_and_what_is_not(box: Box, up: Upstream) -> None:
    path = opened(box)
    assert path == box.home / "run" / "sessions" / SESSION / "egress.sock"
    assert opened(box) == path
    refused = [
        ({"auth": "key"}, "session-exists"),
        ({"session": "run-2", "destination": "nowhere"}, "destination-unknown"),
        ({"session": "run-2", "auth": "gateway"}, "auth-unsupported"),
        ({"session": "run-2", "auth": "key", "harness": "copilot"}, "auth-unsupported"),
        ({"session": "run-" + "x" * 44 + "-too-long"}, "frame-undecodable"),
    ]
    for parts, code in refused:
        says: dict[str, Any] = {"session": SESSION, "destination": "up", "auth": "none", "harness": "claude", **parts}
        with pytest.raises(Fault) as fault:
            box.ask("launcher-egress", EgressOpen(**says), EgressOpened)
        assert fault.value.code == code
    (box.home / "grants.toml").write_text("no rules")
    assert opened(box) == path, "the same words are answered again, whatever the rules say by now"
    with pytest.raises(Fault) as fault:
        opened(box, "run-2")
    assert fault.value.code == "rules-invalid"
    assert exchange(path, CALL).error["code"] == "rules-invalid"


def test_a_call_in_flight_finishes_when_its_door_closes(box: Box, up: Upstream, rows: Callable[..., list[Any]]) -> None:
    path = opened(box, "run-flight")
    begun, go_on = threading.Event(), threading.Event()

    def slowly(connection: socket.socket) -> None:
        begun.set()
        go_on.wait(20)
        answer(USAGE)(connection)

    up.script = slowly
    with connect(path) as calling, connect(path) as idle:
        calling.sendall(CALL)
        assert begun.wait(20)
        _close(box, "run-flight")
        assert not path.parent.exists()
        with pytest.raises(OSError):
            connect(path)
        idle.sendall(CALL)
        assert read(idle).error["code"] == "session-closed"
        go_on.set()
        assert read(calling).body == USAGE
    assert [row.calls for row in rows(session="run-flight")] == [1]
    _close(box, "run-flight")
    up.script = answer(USAGE)
    assert exchange(opened(box, "run-flight", auth="key"), CALL).status == 200


def test_one_connection_too_many_is_told_so(box: Box, up: Upstream) -> None:
    path = opened(box)
    with connect(path), connect(path), connect(path):
        assert exchange(path, CALL).status == 503
    assert exchange(opened(box, "run-2"), CALL).status == 200, "a session has its own bound"


def test_a_session_that_brokerd_does_not_know_is_denied(box: Box, up: Upstream, broker: FakeBroker) -> None:
    broker.deny("session-not-open")
    denied = exchange(opened(box), CALL)
    assert (denied.status, denied.error["code"]) == (403, "session-not-open")
    assert not up.requests


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_told_nothing(box: Box, up: Upstream, broker: FakeBroker) -> None:
    path = opened(box)
    for reached in (path, path.parent, path.parent.parent, path.parent.parent.parent, box.home):
        reached.chmod(0o777)
    for target in ("/v1/chat/completions", "/mcp"):
        with warnings.catch_warnings():
            # Python 3.12 warns of other threads; the child has none, and takes no lock of theirs.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os.setuid(65534)
            answered = exchange(path, request(target, BODY))
            os._exit((answered.status, answered.error["code"]) != (403, "peer-refused"))
        assert os.waitpid(child, 0)[1] == 0
    assert not up.requests
    assert not broker.asked
    assert exchange(path, CALL).status == 200


def test_after_a_crash_the_doors_are_back(box: Box, up: Upstream) -> None:
    path, other = opened(box), opened(box, "run-2")
    _close(box, "run-2")
    box.kill("egressd")
    assert path.exists()
    box.start("egressd")
    assert exchange(path, CALL).body == USAGE
    assert not other.exists()
    assert box.stop("egressd") == {"egressd": 0}
    box.start("egressd")
    assert exchange(path, CALL).body == USAGE
    assert opened(box) == path
    _close(box)


def test_what_a_harness_says_it_used_stands_beside_what_was_seen(
    box: Box, up: Upstream, rows: Callable[..., list[Any]]
) -> None:
    exchange(opened(box, "run-harness"), CALL)
    for tokens in (5, 50):
        used = HarnessUsage(
            session="run-harness",
            call="turn-1",
            destination="up",
            model="scripted-1",
            input_tokens=tokens,
            output_tokens=3,
            cache_read_tokens=None,
            cache_write_5m_tokens=None,
            cache_write_1h_tokens=None,
            reasoning_tokens=None,
        )
        assert box.ask("launcher-egress", used, Ok) == Ok()
    found = {row.source: (row.input_tokens, row.output_tokens, row.billing) for row in rows(session="run-harness")}
    assert found["harness"] == (50, 3, "plan")
    assert found["egress"][:2] == (11, 7)
