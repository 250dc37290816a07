"""brokerd as a process: how it starts, ends, and refuses to start; it leaves no worker behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proto import sockets
from proto.faults import FAULTS
from proto.labels import DataClass
from proto.messages.broker import PolicyEval, PolicyEvalReply, SessionState
from proto.messages.wire import Ok, Ping, Verify, VerifyReply
from proto.role.ask import ask
from tests.brokerd.running import opening

COMMAND = (sys.executable, "-m", "brokerd", "serve")


@contextmanager
def _started(home: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([*COMMAND, "--home", str(home)], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        for line in process.stderr:
            if '"event": "ready"' in line:
                break
        yield process
    finally:
        process.kill()
        process.communicate()


def _refused(home: Path, *more: str) -> str:
    done = subprocess.run(
        [*COMMAND, "--home", str(home), *more], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    return done.stderr


def _workers(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children]


def _gone(pids: list[int]) -> bool:
    """Whether processes are gone, or about to be collected by whoever inherited them."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        states = [Path(f"/proc/{pid}/stat") for pid in pids]
        if all(not path.exists() or path.read_text().rpartition(")")[2].split()[0] == "Z" for path in states):
            return True
        time.sleep(0.02)
    return False


def _decided_once(home: Path) -> None:
    request = PolicyEval(tool="recall", arguments={"query": "x"}, class_=DataClass.PRIVATE, untrusted=False)
    reply: PolicyEvalReply = ask(sockets.socket("owner-broker").at(home), request, PolicyEvalReply)
    assert reply.verdict == "allow"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_it_is_ready_when_its_sockets_accept_and_leaves_no_worker_however_it_ends(home: Path, number: int) -> None:
    with _started(home) as process:
        for name, file in (("loop-broker", None), ("owner-broker", None), ("egress-broker", "broker.sock")):
            path = sockets.socket(name, file).at(home)
            assert ask(path, Ping(), Ok) == Ok()
            assert path.stat().st_mode & 0o777 == 0o600
            assert path.parent.stat().st_mode & 0o777 == 0o700
        _decided_once(home)
        workers = _workers(process.pid)
        assert len(workers) == 2
        os.kill(process.pid, number)
        assert process.wait(20) == (-number if number == signal.SIGKILL else 0)
        assert _gone(workers)


def test_a_second_one_ends_at_the_socket_and_touches_nothing(home: Path) -> None:
    with _started(home):
        ask(sockets.socket("loop-broker").at(home), opening(), SessionState)
        path = home / "audit/decisions.jsonl"
        with path.open("ab") as file:
            file.write(b"half a line")  # what a second one would cut off
        assert FAULTS["socket-in-use"].sentence in _refused(home)
        assert path.read_bytes().endswith(b"half a line")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[policy]\ntimeout_s = 0\n", "brokerd.toml, line 2: policy.timeout_s"),
        ("[approvals]\n\nlapse = 1\n", "brokerd.toml, line 3: approvals.lapse: unknown key"),
        ("[memory]\nsocket = 1\n", "brokerd.toml, line 2: memory.socket"),
        ("=", "brokerd.toml: not TOML"),
    ],
)
def test_a_setting_that_is_not_known_is_named_with_file_line_and_key(home: Path, text: str, told: str) -> None:
    path = home / "brokerd.toml"
    path.write_text(text)
    assert told in _refused(home, "--config", str(path))


def test_a_state_that_cannot_be_used_says_so_with_its_runbook(home: Path) -> None:
    (home / "state").mkdir()
    (home / "state/brokerd").write_text("a file")
    told = _refused(home)
    assert "(runbook: brokerd-start-failed)" in told


def test_its_sockets_can_be_elsewhere(home: Path) -> None:
    path = home / "brokerd.toml"
    path.write_text('[sockets]\nadmin = "elsewhere/a.sock"\n')
    process = subprocess.Popen(
        [*COMMAND, "--home", str(home), "--config", str(path)], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr
        assert any('"event": "ready"' in line for line in process.stderr)
        assert ask(home / "elsewhere/a.sock", Verify(), VerifyReply) == VerifyReply(journals=[])
    finally:
        process.kill()
        process.communicate()
