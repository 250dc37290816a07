"""What a supervisor is told: ready, alive, stopping. And what it passes: sockets that are taken as they are."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.messages.wire import Ok, Ping
from proto.role import ready
from proto.role.ask import ask
from proto.sockets import socket as row
from tests.proto.role.test_main import _DAEMON


@pytest.fixture
def told(home: Path) -> Iterator[socket.socket]:
    """A supervisor's notification socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.bind(str(home / "n"))
        receiving.settimeout(20)
        yield receiving


def test_nobody_need_listen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    ready.notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(home / "nobody"))
    ready.notify("READY=1")


def test_an_abstract_socket_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"boxmaker-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.bind(f"\0{name}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        ready.notify("READY=1")
        assert receiving.recv(100) == b"READY=1"


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "often"}, None),
    ],
)
def test_how_long_the_watchdog_waits(
    environ: dict[str, str], seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert ready.watchdog_s() == seconds


@pytest.mark.measured
def test_a_daemon_tells_that_it_is_ready_alive_and_stopping(home: Path, told: socket.socket) -> None:
    environ = {**os.environ, "NOTIFY_SOCKET": str(home / "n"), "WATCHDOG_USEC": "300000"}
    with subprocess.Popen([sys.executable, "-c", _DAEMON, "serve", "--home", str(home)], env=environ) as daemon:
        heard = [told.recv(100).decode() for _ in range(5)]
        assert heard.count("READY=1") == 1
        assert heard.count("WATCHDOG=1") == 4
        daemon.send_signal(signal.SIGTERM)
        while told.recv(100) != b"STOPPING=1":
            pass
        assert daemon.wait(20) == 0


@pytest.mark.measured
def test_a_socket_that_is_passed_is_served_as_it_is(home: Path) -> None:
    """No lock beside it, no check, no bind: its folder need not even be writable, nor seen."""
    path = row("owner-memory").at(home)
    path.parent.mkdir(parents=True, mode=0o700)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen(10)
    script = 'export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@" 3<&0 0</dev/null'
    command = ["sh", "-c", script, "sh", sys.executable, "-c", _DAEMON, "serve", "--home", str(home)]
    with subprocess.Popen(command, stdin=listening.fileno()) as daemon:
        ask(path, Ping(), Ok, timeout_s=20)
        assert os.listdir(path.parent) == [path.name]
        daemon.kill()
        daemon.wait()
        # Who asks while it is away waits for the next one.
        with subprocess.Popen(command, stdin=listening.fileno()) as next_one:
            ask(path, Ping(), Ok, timeout_s=20)
            next_one.send_signal(signal.SIGTERM)
            assert next_one.wait(20) == 0
    listening.close()
