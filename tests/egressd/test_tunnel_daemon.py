"""A tunnel through a real egressd: opened over launcherd's socket, decided by brokerd, booked, ended by a label."""

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proto.labels import DataClass
from proto.messages.broker import SessionLabel
from proto.messages.egress import EgressClose, EgressOpen, EgressOpened, UsageRow
from proto.messages.wire import Ok
from tests.e2e.box import Box
from tests.egressd.certificates import Authority
from tests.egressd.connects import tunnelled, until
from tests.fakes.egress_broker import FakeBroker
from tests.fakes.session_door import SESSION
from tests.fakes.tls import Secured, Server, capitals, server

Rows = Callable[..., list[Any]]


@pytest.fixture
def egressd_toml() -> str:
    return '[tunnel]\ninside = ["localhost"]\n'


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def up(authority: Authority) -> Iterator[Server]:
    with server(Secured(authority.server("DNS:localhost"), capitals)) as found:
        yield found


@pytest.fixture
def door(home: Path, box: Box, up: Server) -> Path:
    rule = f'auth = ["subscription"]\ntunnels = ["localhost:{up.port}"]\n'
    (home / "grants.toml").write_text(f"[destinations.up]\n{rule}")
    request = EgressOpen(session=SESSION, destination="up", auth="subscription", harness="copilot")
    return Path(box.ask("launcher-egress", request, EgressOpened).path)


def test_it_passes_and_is_booked_as_pinned(
    door: Path, up: Server, authority: Authority, broker: FakeBroker, box: Box, rows: Rows
) -> None:
    host = f"localhost:{up.port}"
    raw, _ = tunnelled(door, host)
    with authority.client().wrap_socket(raw, server_hostname="localhost") as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"HELLO"
        client.unwrap()
    assert [(one.session, one.destination, one.what, one.path) for one in broker.asked] == [
        (SESSION, "up", "tunnel", host)
    ] * 2
    broker.deny("ceiling")
    raw, answered = tunnelled(door, host)
    raw.close()
    assert (answered.status, answered.error["code"]) == (403, "ceiling")
    assert box.ask("launcher-egress", EgressClose(session=SESSION), Ok) == Ok()
    until(lambda: len(rows()) == 2)
    row, refused = sorted(rows(), key=lambda row: row.status)
    assert (refused.model, refused.status, refused.calls) == (host, 403, 1)
    assert row == UsageRow(
        destination="up", model=host, status=200, calls=1, input_tokens=None, output_tokens=None,
        cache_read_tokens=None, billing="plan", up_bytes=row.up_bytes, down_bytes=row.down_bytes,
    )  # fmt: skip
    assert row.up_bytes > 200
    assert row.down_bytes > 500


def test_a_label_that_rises_and_a_door_that_closes_end_it(
    door: Path, up: Server, authority: Authority, box: Box, rows: Rows
) -> None:
    context = authority.client()
    for ending in (
        ("broker-egress", SessionLabel(session=SESSION, class_=DataClass.SECRET, untrusted=False)),
        ("launcher-egress", EgressClose(session=SESSION)),
    ):
        raw, _ = tunnelled(door, f"localhost:{up.port}")
        with context.wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=False) as client:
            client.sendall(b"hello")
            assert client.recv(100) == b"HELLO"
            assert box.ask(*ending, Ok) == Ok()
            with pytest.raises((ssl.SSLError, ConnectionResetError)):
                client.recv(100)
    # Each tunnel is settled when its tasks have ended, which may be after the answer.
    until(lambda: [row.calls for row in rows()] == [2])
