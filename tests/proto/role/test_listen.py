"""Binding: 0600 in 0700, one daemon a socket, nothing live or foreign removed."""

import socket
import stat
from pathlib import Path

import pytest

from proto.faults import Fault
from proto.role.listen import listen


def _code(path: Path) -> str:
    with pytest.raises(Fault) as caught:
        listen(path)
    return caught.value.code


def test_modes(home: Path) -> None:
    path = home / "run" / "a-b" / "s.sock"
    with listen(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700


def test_a_live_socket_is_kept_and_the_second_daemon_refused(home: Path) -> None:
    with listen(home / "s.sock"):
        assert _code(home / "s.sock") == "socket-in-use"
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(home / "s.sock"))


def test_a_stale_socket_is_taken_over(home: Path) -> None:
    listen(home / "s.sock").close()
    assert (home / "s.sock").exists()
    listen(home / "s.sock").close()


def test_a_file_at_the_path_is_kept(home: Path) -> None:
    (home / "s.sock").write_text("mine")
    assert _code(home / "s.sock") == "socket-not-ours"
    assert (home / "s.sock").read_text() == "mine"


def test_a_link_at_the_path_is_kept(home: Path) -> None:
    (home / "s.sock").symlink_to(home / "elsewhere")
    assert _code(home / "s.sock") == "socket-not-ours"
    assert (home / "s.sock").is_symlink()


def test_a_path_too_long_is_told(home: Path) -> None:
    assert _code(home / ("x" * 100) / "s.sock") == "socket-path-too-long"
