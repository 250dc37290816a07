"""Binding: 0600 in 0700, one daemon a socket, nothing live or foreign removed."""

import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from proto.faults import Fault
from proto.role.listen import clear, datagrams, listen


def _code(path: Path, opening: Callable[[Path], object] = listen) -> str:
    with pytest.raises(Fault) as caught:
        opening(path)
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


def test_a_link_in_the_place_of_the_lock_makes_no_file(home: Path) -> None:
    (home / ".s.sock.lock").symlink_to(home / "elsewhere")
    with pytest.raises(Fault) as caught:
        listen(home / "s.sock")
    assert caught.value.code == "socket-not-ours"
    assert not (home / "elsewhere").exists()


def test_a_path_too_long_is_told(home: Path) -> None:
    assert _code(home / ("x" * 100) / "s.sock") == "socket-path-too-long"


def test_a_socket_of_datagrams_is_as_private_and_as_much_its_own(home: Path) -> None:
    path = home / "run" / "a-b" / "s.sock"
    with datagrams(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert _code(path, datagrams) == "socket-in-use"
        clear(path)
        assert path.exists()
    datagrams(path).close()
    clear(path)
    assert not path.exists()
    clear(path)
    clear(home / "no" / "s.sock")
    assert not (home / "no").exists()


def test_neither_kind_of_socket_takes_the_place_of_the_other(home: Path) -> None:
    with listen(home / "a.sock"), datagrams(home / "b.sock"):
        assert _code(home / "a.sock", datagrams) == _code(home / "b.sock") == "socket-in-use"
    (home / "c.sock").write_text("mine")
    clear(home / "c.sock")
    assert (home / "c.sock").read_text() == "mine"
