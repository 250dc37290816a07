"""Tunnels over real sockets: what passes, what is refused before and after the 200, what is left when one ends."""

import contextlib
import itertools
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from egressd.config import Tunnel
from egressd.wire.hello import Reason, Refused, alert
from proto.faults import FAULTS, Fault
from proto.labels import DataClass
from tests.egressd import http
from tests.egressd.connects import rest, tunnelled, until
from tests.fakes import hello as forge
from tests.fakes.session_door import SESSION, Door, session_door
from tests.fakes.tls import Server, capitals, server

HOST = "api.example.test"
HELLO = forge.hello(HOST)
ANSWER = forge.record(forge.handshake(b"\3\3" + bytes(60), kind=2))
AGAIN = forge.record(
    forge.handshake(
        b"\3\3" + bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c") + bytes(28), kind=2
    )
)
DENIED, UNNAMED, DAMAGED, BROKEN = alert(49), alert(112), alert(50), alert(80)


class Peer:
    """A server's script: keeps what comes, and answers the first bytes of each of its connections."""

    def __init__(self) -> None:
        self.answers = [ANSWER]
        self.received: list[bytearray] = []

    def __call__(self, connection: socket.socket) -> None:
        received = bytearray()
        self.received.append(received)
        answers = iter(self.answers)
        while data := connection.recv(65536):
            received += data
            connection.sendall(next(answers, b""))


@pytest.fixture
def peer() -> Peer:
    return Peer()


@pytest.fixture
def up(peer: Peer) -> Iterator[Server]:
    with server(peer) as found:
        yield found


@pytest.fixture
def limits() -> Tunnel:
    return Tunnel(inside=[HOST])


def write(home: Path, *tunnels: str) -> None:
    listed = ", ".join(f'"{one}"' for one in tunnels)
    (home / "grants.toml").write_text(f"[destinations.up]\ntunnels = [{listed}]\n")


@pytest.fixture
def door(home: Path, up: Server, limits: Tunnel) -> Iterator[Door]:
    write(home, f"{HOST}:{up.port}", HOST)
    with session_door(home, limits) as found:
        yield found


def ask(door: Door, authority: str, *, behind: bytes = b"", headers: str = "") -> tuple[socket.socket, http.Response]:
    """Ask for a tunnel; the connection, and what was answered."""
    return tunnelled(door.path, authority, behind=behind, headers=headers)


def refused(door: Door, authority: str, **parts: object) -> http.Response:
    """Ask for a tunnel that there is not."""
    client, answered = ask(door, authority, **parts)  # type: ignore[arg-type]
    client.close()
    return answered


@contextlib.contextmanager
def tunnel(door: Door, up: Server, behind: bytes = b"") -> Iterator[socket.socket]:
    """An open tunnel to the server."""
    client, answered = ask(door, f"{HOST}:{up.port}", behind=behind)
    assert answered.status == 200
    with client:
        yield client


def ended(door: Door) -> tuple[int, str]:
    """How the one tunnel ended, once it has."""
    until(lambda: door.settled and not door.open)
    (settled,) = door.settled
    return settled.status, settled.ended


# What passes.


def test_bytes_pass_as_they_are_and_are_counted(door: Door, up: Server, peer: Peer) -> None:
    sent = os.urandom(300_000)
    with tunnel(door, up) as client:
        client.sendall(HELLO)
        assert client.recv(len(ANSWER)) == ANSWER
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        assert rest(client) == b""
    assert ended(door) == (200, "complete")
    assert peer.received == [HELLO + sent]
    (begun,), (settled,) = door.begun, door.settled
    assert (begun.session, begun.destination, begun.authority) == (SESSION, "up", f"{HOST}:{up.port}")
    assert (settled.call, settled.up_bytes, settled.down_bytes) == (begun.call, len(HELLO + sent), len(ANSWER))
    # Once before the 200, and once before anything leaves.
    questions = [(one.call, one.session, one.destination, one.what, one.method, one.path) for one in door.asked]
    assert questions == [(begun.call, SESSION, "up", "tunnel", "CONNECT", f"{HOST}:{up.port}")] * 2


@pytest.mark.parametrize("step", [1, 7, 5000])
def test_a_hello_in_any_pieces_arrives_as_it_came(door: Door, up: Server, peer: Peer, step: int) -> None:
    divided = forge.divided(forge.message_of(HELLO), itertools.repeat(100))
    with tunnel(door, up, behind=divided[:3]) as client:
        for at in range(3, len(divided), step):
            client.sendall(divided[at : at + step])
        assert client.recv(len(ANSWER)) == ANSWER
    assert ended(door) == (200, "complete")
    assert peer.received == [divided]


def test_what_came_behind_the_connect_is_not_lost(door: Door, up: Server, peer: Peer) -> None:
    with tunnel(door, up, behind=HELLO + b"early data") as client:
        assert client.recv(len(ANSWER)) == ANSWER
    assert ended(door) == (200, "complete")
    assert peer.received == [HELLO + b"early data"]


def test_each_direction_ends_by_itself(door: Door, up: Server) -> None:
    """The server says its last word after the client has said its own, and the other way round."""

    def answer_at_the_end(connection: socket.socket) -> None:
        received = b""
        connection.sendall(ANSWER)
        while data := connection.recv(65536):
            received += data
        connection.sendall(b"%d bytes" % len(received))

    def end_first(connection: socket.socket) -> None:
        connection.sendall(ANSWER + b"all")
        connection.shutdown(socket.SHUT_WR)
        capital = b""
        while data := connection.recv(65536):
            capital += data
        heard.append(capital)

    heard: list[bytes] = []
    up.script = answer_at_the_end
    with tunnel(door, up, behind=HELLO) as client:
        assert client.recv(len(ANSWER)) == ANSWER
        client.sendall(b"more")
        client.shutdown(socket.SHUT_WR)
        assert rest(client) == b"%d bytes" % (len(HELLO) + 4)
    up.script = end_first
    with tunnel(door, up, behind=HELLO) as client:
        assert rest(client) == ANSWER + b"all"
        client.sendall(b"more")
    until(lambda: heard)
    assert heard == [HELLO + b"more"]
    until(lambda: not door.open)
    assert [one.ended for one in door.settled] == ["complete", "complete"]


def test_a_side_that_takes_nothing_is_a_side_that_nothing_is_read_for(door: Door, up: Server) -> None:
    go_on = threading.Event()
    taken: list[int] = []

    def slow(connection: socket.socket) -> None:
        connection.sendall(ANSWER)
        assert go_on.wait(20)
        size = 0
        while data := connection.recv(1 << 20):
            size += len(data)
        taken.append(size)

    up.script = slow
    total = 64 << 20
    with tunnel(door, up, behind=HELLO) as client:
        assert client.recv(len(ANSWER)) == ANSWER
        client.settimeout(0.5)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < total:
                sent += client.send(bytes(1 << 20))
        # The kernel's own buffers hold some megabytes; what does not fit there waits in the client.
        assert sent < total
        go_on.set()
        client.shutdown(socket.SHUT_WR)
        assert rest(client) == b""
    until(lambda: taken)
    assert taken == [len(HELLO) + sent]


def test_a_tunnel_that_is_opened_ahead_and_never_used_is_nothing(door: Door, up: Server) -> None:
    for close in (socket.socket.close, lambda client: client.shutdown(socket.SHUT_WR)):
        with tunnel(door, up) as client:
            close(client)
            until(lambda: not door.open)
    assert (door.begun, door.settled) == ([], [])
    assert up.connections == 0
    assert door.looked_up == []


# What is refused before the 200.


@pytest.mark.parametrize(
    ("authority", "code", "status"),
    [
        ("other.example.test:443", "tunnel-host", 403),
        (f"{HOST}:8443", "tunnel-host", 403),
        (f"x.{HOST}:443", "tunnel-host", 403),
        ("127.0.0.1:443", "tunnel-host", 403),
        ("[::1]:443", "tunnel-host", 403),
        ("127.1:443", "request-invalid", 400),
        ("0x7f000001:443", "request-invalid", 400),
        (HOST, "request-invalid", 400),
        (f"{HOST}:0", "request-invalid", 400),
        (f"{HOST}:65536", "request-invalid", 400),
        (f"user@{HOST}:443", "request-invalid", 400),
        (f"https://{HOST}:443", "request-invalid", 400),
        (f"{HOST}:443/x", "request-invalid", 400),
        (f"{HOST}:443?x", "request-invalid", 400),
        ("..:443", "request-invalid", 400),
    ],
)
def test_only_a_host_and_port_of_the_list(door: Door, up: Server, authority: str, code: str, status: int) -> None:
    answered = refused(door, authority)
    assert (answered.status, answered.error["code"]) == (status, code)
    until(lambda: not door.open)
    assert up.connections == 0 and door.looked_up == []
    # Whatever is refused by a rule was asked about first, an address too: that is its line in the audit log.
    assert [(one.status, one.ended) for one in door.settled] == ([(403, "refused")] if status == 403 else [])
    assert len(door.asked) == (status == 403)


def test_the_name_is_compared_as_names_are(door: Door, up: Server) -> None:
    for authority in (f"API.Example.TEST:{up.port}", f"{HOST}.:{up.port}"):
        client, answered = ask(door, authority, behind=HELLO)
        with client:
            assert answered.status == 200
            assert client.recv(len(ANSWER)) == ANSWER


def test_a_host_that_is_not_listed_is_asked_about_and_refused_all_the_same(door: Door) -> None:
    assert (
        refused(door, "other.example.test:443").error["message"]
        == FAULTS["tunnel-host"].sentence + " (runbook: tunnel-host)"
    )
    assert [one.path for one in door.asked] == ["other.example.test:443"]


@pytest.mark.parametrize("headers", ["Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n"])
def test_a_connect_has_no_body(door: Door, headers: str) -> None:
    answered = refused(door, f"{HOST}:443", headers=headers, behind=b"abc")
    assert (answered.status, answered.error["code"]) == (400, "request-invalid")


def test_the_ceiling_is_said_before_the_200(door: Door, up: Server) -> None:
    door.denied = ["ceiling"]
    answered = refused(door, f"{HOST}:{up.port}")
    assert (answered.status, answered.error["code"], answered.error["type"]) == (403, "ceiling", "permission_error")
    assert ended(door) == (403, "refused")
    assert len(door.asked) == 1 and up.connections == 0 and door.looked_up == []


def test_no_broker_and_no_rules_are_refusals(door: Door, up: Server, home: Path) -> None:
    door.fails = Fault("brokerd-unreachable")
    assert refused(door, f"{HOST}:{up.port}").error["code"] == "brokerd-unreachable"
    (home / "grants.toml").write_text("[destinations.up]\ntunnels = 3\n")
    assert refused(door, f"{HOST}:{up.port}").error["code"] == "rules-invalid"
    (home / "grants.toml").write_text("")
    assert refused(door, f"{HOST}:{up.port}").error["code"] == "destination-unknown"
    assert up.connections == 0


def test_rules_that_change_while_it_is_asked_are_asked_again(door: Door, up: Server, home: Path) -> None:
    door.before_answer = lambda _: write(home, f"{HOST}:{up.port}", "more.example.test")
    assert refused(door, f"{HOST}:{up.port}").error["code"] == "rules-invalid"


# What is refused after it, before anything leaves.


@pytest.mark.parametrize(
    ("sent", "reason", "told"),
    [
        (forge.hello("other.example.test"), "other-name", UNNAMED),
        (forge.hello(None), "no-name", UNNAMED),
        (forge.with_extension(HELLO, *forge.GREASE_ECH), "ech", DENIED),
        (forge.with_extension(HELLO, 0, forge.server_name((0, HOST.encode()), (0, b"x"))), "damaged", DAMAGED),
        (b"CONNECT other.example.test:443 HTTP/1.1\r\nHost: other.example.test\r\n\r\n", "not-tls", b""),
        (b"GET / HTTP/1.1\r\nHost: api.example.test\r\n\r\n", "not-tls", b""),
        (b"SSH-2.0-client\r\n", "not-tls", b""),
        (forge.record(b"\1\xff\xff\xff"), "too-long", DAMAGED),
    ],
    ids=["other name", "no name", "ech", "two names", "nested CONNECT", "plain HTTP", "SSH", "too long"],
)
def test_a_hello_that_does_not_name_the_host_goes_nowhere(
    door: Door, up: Server, sent: bytes, reason: Reason, told: bytes
) -> None:
    with tunnel(door, up) as client:
        client.sendall(sent)
        assert rest(client) == told
    assert ended(door) == (403, "refused")
    assert up.connections == 0 and door.looked_up == []
    assert len(door.asked) == 1
    (begun,), (settled,), (line,) = door.begun, door.settled, door.lines
    assert (settled.up_bytes, settled.down_bytes) == (0, 0)
    assert line == {
        "event": "tunnel-refused", "log_level": "info", "session": SESSION, "call": begun.call, "destination": "up",
        "host": f"{HOST}:{up.port}", "code": "tunnel-hello", "reason": Refused(reason).sentence,
    }  # fmt: skip


def test_half_a_hello_goes_nowhere(door: Door, up: Server) -> None:
    with tunnel(door, up) as client:
        client.sendall(HELLO[:-1])
        client.shutdown(socket.SHUT_WR)
        assert rest(client) == b""
    assert ended(door) == (200, "client-left")
    assert up.connections == 0


class TestInTime:
    """A client that takes too long."""

    @pytest.fixture
    def limits(self) -> Tunnel:
        return Tunnel(inside=[HOST], hello_s=0.2, idle_s=0.4, connect_s=0.3)

    def test_half_a_hello_is_not_waited_for(self, door: Door, up: Server) -> None:
        with tunnel(door, up) as client:
            client.sendall(HELLO[:-1])
            assert rest(client) == b""
        assert ended(door) == (403, "refused")
        assert up.connections == 0

    def test_nor_is_a_silent_tunnel_for_ever(self, door: Door, up: Server) -> None:
        with tunnel(door, up) as client:
            assert rest(client) == b""
        assert door.begun == []

    def test_nor_is_an_idle_one(self, door: Door, up: Server, peer: Peer) -> None:
        with tunnel(door, up, behind=HELLO) as client:
            assert rest(client) == ANSWER
        assert ended(door) == (200, "stopped")
        assert peer.received == [HELLO]

    def test_nor_is_a_server_that_does_not_answer(self, door: Door, up: Server, peer: Peer) -> None:
        peer.answers = []
        with tunnel(door, up, behind=HELLO) as client:
            assert rest(client) == BROKEN
        assert ended(door) == (502, "failed")


@pytest.mark.parametrize("reasons", [["ceiling"], ["session-not-open"]])
def test_brokerd_has_the_last_word_before_anything_leaves(door: Door, up: Server, reasons: list[str]) -> None:
    with tunnel(door, up) as client:
        door.denied = reasons
        client.sendall(HELLO)
        assert rest(client) == DENIED
    assert ended(door) == (403, "refused")
    assert len(door.asked) == 2
    assert up.connections == 0 and door.looked_up == []


def test_rules_that_changed_since_the_200_count(door: Door, up: Server, home: Path) -> None:
    with tunnel(door, up) as client:
        write(home, "other.example.test")
        client.sendall(HELLO)
        assert rest(client) == DENIED
    assert ended(door) == (403, "refused")
    assert up.connections == 0


@pytest.mark.parametrize(
    "addresses", [["10.0.0.1"], ["127.0.0.1"], ["93.184.215.14", "::1"], ["::ffff:127.0.0.1"], ["169.254.169.254"]]
)
def test_a_name_that_leads_inside_is_refused(door: Door, up: Server, home: Path, addresses: list[str]) -> None:
    name = "inside.example.test"
    write(home, f"{name}:{up.port}")
    door.addresses = addresses
    client, answered = ask(door, f"{name}:{up.port}", behind=forge.hello(name))
    assert answered.status == 200
    with client:
        assert rest(client) == DENIED
    assert ended(door) == (403, "refused")
    assert up.connections == 0


@pytest.mark.parametrize("addresses", [[], ["127.0.0.9"]])
def test_a_host_that_does_not_answer(door: Door, up: Server, addresses: list[str]) -> None:
    door.addresses = addresses
    with tunnel(door, up, behind=HELLO) as client:
        assert rest(client) == BROKEN
    assert ended(door) == (502, "failed")


def test_a_host_that_breaks_off_in_the_handshake(door: Door, up: Server) -> None:
    def reset(connection: socket.socket) -> None:
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    up.script = reset
    with tunnel(door, up, behind=HELLO) as client:
        assert rest(client) == BROKEN
    assert ended(door) == (502, "failed")


def test_a_host_that_breaks_off_amid_its_answer_has_the_last_word(door: Door, up: Server) -> None:
    def reset(connection: socket.socket) -> None:
        connection.sendall(ANSWER[:5])
        connection.recv(1)
        assert go_on.wait(20)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    go_on = threading.Event()
    up.script = reset
    with tunnel(door, up, behind=HELLO) as client:
        assert client.recv(5, socket.MSG_WAITALL) == ANSWER[:5]
        go_on.set()
        assert rest(client) == b""
    assert ended(door) == (502, "failed")


# A server may believe the name of a second hello.


def test_a_second_hello_is_read_like_the_first(door: Door, up: Server, peer: Peer) -> None:
    peer.answers = [AGAIN, ANSWER]
    before = b"\x14\x03\x03\x00\x01\x01"
    with tunnel(door, up, behind=HELLO) as client:
        assert client.recv(len(AGAIN)) == AGAIN
        client.sendall(before + HELLO)
        assert client.recv(len(ANSWER)) == ANSWER
    assert ended(door) == (200, "complete")
    assert peer.received == [HELLO + before + HELLO]


@pytest.mark.parametrize("ahead", [True, False])
def test_a_second_hello_with_another_name_goes_nowhere(door: Door, up: Server, peer: Peer, ahead: bool) -> None:
    peer.answers = [AGAIN]
    second = forge.hello("other.example.test")
    with tunnel(door, up, behind=HELLO + second if ahead else HELLO) as client:
        assert client.recv(len(AGAIN), socket.MSG_WAITALL) == AGAIN
        if not ahead:
            client.sendall(second)
        assert rest(client) == UNNAMED
    assert ended(door) == (403, "refused")
    assert peer.received == [HELLO]


# A label that rises, and a session that is closed.


def test_a_label_that_rises_above_the_ceiling_ends_it_at_once(door: Door, up: Server, peer: Peer) -> None:
    with tunnel(door, up, behind=HELLO) as client, tunnel(door, up) as silent:
        assert client.recv(len(ANSWER)) == ANSWER
        assert door.raise_label(DataClass.PRIVATE) == 0
        assert door.raise_label(DataClass.SECRET) == 2
        assert rest(client) == b""
        assert rest(silent) == DENIED
        with pytest.raises(BrokenPipeError):
            client.sendall(b"too late")
        until(lambda: not door.open)
    assert ended(door) == (200, "label-rose")
    assert peer.received == [HELLO]


def test_nothing_that_waits_in_the_kernel_leaves_after_the_label_rose(door: Door, up: Server) -> None:
    go_on = threading.Event()
    outcome: list[str] = []

    def slow(connection: socket.socket) -> None:
        connection.sendall(ANSWER)
        assert go_on.wait(20)
        size = 0
        try:
            while data := connection.recv(1 << 16):
                size += len(data)
            outcome.append("a proper end")
        except ConnectionResetError:
            outcome.append("reset")

    up.script = slow
    with tunnel(door, up, behind=HELLO) as client:
        assert client.recv(len(ANSWER)) == ANSWER
        client.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            while True:
                client.send(bytes(1 << 20))
        assert door.raise_label(DataClass.SECRET) == 1
        go_on.set()
        until(lambda: outcome)
    assert outcome == ["reset"]
    assert ended(door) == (200, "label-rose")


@pytest.mark.parametrize("asked", [1, 2])
def test_a_label_that_rises_while_it_is_asked_about(door: Door, up: Server, asked: int) -> None:
    door.rises_at = asked
    client, answered = ask(door, f"{HOST}:{up.port}", behind=HELLO)
    with client:
        if asked == 1:
            assert (answered.status, answered.error["code"]) == (403, "ceiling")
        else:
            assert rest(client) == DENIED
    assert ended(door) == ((403, "refused") if asked == 1 else (200, "label-rose"))
    assert up.connections == 0 and door.looked_up == []


def test_a_session_that_is_closed_has_no_tunnels(door: Door, up: Server) -> None:
    with tunnel(door, up, behind=HELLO) as client:
        assert client.recv(len(ANSWER)) == ANSWER
        door.close_session()
        assert rest(client) == b""
    assert ended(door) == (200, "stopped")


def test_many_at_once(door: Door, up: Server) -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(ANSWER)
        capitals(connection)

    up.script = answer
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(tunnel(door, up, behind=HELLO)) for _ in range(40)]
        for number, client in enumerate(clients):
            client.sendall(b"a" * number)
            client.shutdown(socket.SHUT_WR)
        for number, client in enumerate(clients):
            assert rest(client) == ANSWER + HELLO.upper() + b"A" * number
    until(lambda: not door.open)
    assert [one.ended for one in door.settled] == ["complete"] * 40
