"""A worker ends when it should: late, lost, too busy, too large, or with its daemon."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from proto.role.worker import Worker, WorkerLost

pytestmark = pytest.mark.anyio

_LIMITED = """
import os, sys
from proto.role.confined import confine
confine(os.getppid(), cpu_s=1, memory_bytes=32 << 20)
"""


def _run(code: str) -> int:
    return subprocess.run([sys.executable, "-I", "-c", _LIMITED + code], check=False).returncode


def test_it_has_so_much_time_and_so_much_memory() -> None:
    assert _run("while True: pass") in (-signal.SIGXCPU, -signal.SIGKILL)
    grow = "try: bytearray({}); sys.exit(7)\nexcept MemoryError: sys.exit(8)"
    assert _run(grow.format(8 << 20)) == 7
    assert _run(grow.format(64 << 20)) == 8


def test_one_whose_daemon_has_ended_already_ends() -> None:
    code = (
        "import os; from proto.role.confined import confine; confine(os.getppid() + 1, cpu_s=1, memory_bytes=1 << 20)"
    )
    assert subprocess.run([sys.executable, "-I", "-c", code], check=False).returncode == -signal.SIGKILL


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads the environment of a process that cannot be dumped")
async def test_it_has_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UP_KEY", "sk-test-0123456789abcdef")
    found = await Worker.start("egressd.reader")
    try:
        assert b"UP_KEY" not in Path(f"/proc/{found.pid}/environ").read_bytes()
    finally:
        await found.end()


async def test_it_answers_again_and_again_until_it_is_ended() -> None:
    found = await Worker.start("egressd.reader")
    for page, text in ((b"<p>a", b"=a"), (b"<p>" + b"b" * 300_000, b"+" + b"b" * 200_000)):
        assert await found.ask(b'[null, "https://a.example/", 200000]\n' + page, 20) == text
    await found.end()
    assert not Path(f"/proc/{found.pid}").exists()
    with pytest.raises(WorkerLost):
        await found.ask(b"", 1)


@pytest.mark.parametrize("lost", ["late", "nonsense", "killed", "no such module"])
async def test_one_that_does_not_answer_is_ended(lost: str) -> None:
    found = await Worker.start("egressd.no_such" if lost == "no such module" else "egressd.reader")
    if lost in ("late", "killed"):
        found._process.send_signal(signal.SIGSTOP if lost == "late" else signal.SIGKILL)
    with pytest.raises(WorkerLost):
        await found.ask(b"no json\n", 0.2 if lost == "late" else 20)
    assert not Path(f"/proc/{found.pid}").exists()


async def test_one_whose_caller_is_cancelled_is_ended() -> None:
    found = await Worker.start("egressd.reader")
    found._process.send_signal(signal.SIGSTOP)
    with anyio.move_on_after(0.1):
        await found.ask(b"", 20)
    assert not Path(f"/proc/{found.pid}").exists()


async def test_one_that_cannot_start_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(WorkerLost, match="no worker can be started"):
        await Worker.start("egressd.reader")
