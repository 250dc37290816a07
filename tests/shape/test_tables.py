"""The tables of proto: one writer for each path, two ends for each socket, one place for each kind."""

from itertools import combinations

from proto import faults, home, messages, sockets
from proto.messages import wire

PROGRAMS = {"memoryd", "brokerd", "egressd", "loopd", "launcherd", "bxctl", "boxmaker-model"}
ASKED_WITHOUT_A_ROW = {wire.Ping}  # answered on every framed socket


def test_every_path_has_one_writer() -> None:
    """No row repeats another, and none lies inside one that somebody else writes."""
    for one, other in combinations(home.PATHS, 2):
        assert one.path != other.path
        inside = one.path.startswith(other.path) or other.path.startswith(one.path)
        assert not inside or one.writer == other.writer, (one, other)


def test_writers_and_readers_are_programs_of_the_box() -> None:
    for row in home.PATHS:
        assert {row.writer, *row.readers} <= PROGRAMS | {home.OWNER}
        assert row.writer not in row.readers


def test_what_is_under_state_belongs_to_the_daemon_it_names() -> None:
    for row in home.PATHS:
        if row.path.startswith("state/"):
            assert row.path == f"state/{row.writer}/"


def test_every_socket_has_a_path_of_its_own() -> None:
    assert len({row.path for row in sockets.SOCKETS}) == len(sockets.SOCKETS)


def test_a_socket_is_named_after_its_two_ends() -> None:
    names = {
        "owner": "bxctl",
        "loop": "loopd",
        "broker": "brokerd",
        "memory": "memoryd",
        "egress": "egressd",
        "launcher": "launcherd",
        "model": "boxmaker-model",
        "spans": "every daemon",
    }
    for row in sockets.SOCKETS:
        client, server = row.name.split("-")
        assert (names[client], names[server]) == (row.client, row.server)
        assert row.server in PROGRAMS


def test_no_kind_goes_over_http() -> None:
    assert [row.path for row in sockets.SOCKETS if row.requests and row.protocol == "http"] == []


def test_datagrams_are_told_and_frames_are_asked() -> None:
    for row in sockets.SOCKETS:
        base = wire.Datagram if row.protocol == "datagrams" else wire.Request
        assert all(issubclass(kind, base) for kind in row.requests), row.path


def test_every_request_is_asked_somewhere_and_no_reply_is() -> None:
    asked = {request for row in sockets.SOCKETS for request in row.requests}
    requests = {kind for kind in messages.KINDS.values() if issubclass(kind, wire.Request | wire.Datagram)}
    assert asked | ASKED_WITHOUT_A_ROW == requests


def test_memoryd_calls_nobody() -> None:
    assert [row.path for row in sockets.SOCKETS if row.client == "memoryd"] == []


def test_a_code_is_lower_case_words() -> None:
    for code, row in faults.FAULTS.items():
        assert code == code.lower()
        assert set(code) <= set("abcdefghijklmnopqrstuvwxyz-")
        assert row.sentence[:1].islower() or row.sentence.startswith(("memoryd", "brokerd", "egressd"))
