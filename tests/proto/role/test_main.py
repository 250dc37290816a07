"""A daemon's life: ready when it serves, 0 on SIGTERM however often, 1 and one sentence for a fault at start."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.measured

_DAEMON = """
import sys, anyio
from proto.faults import Fault
from proto.messages.wire import Ok
from proto.role import main
from proto.sockets import socket

async def desk(request, connection):
    return Ok()

async def run(arguments, ready):
    home = main.home_of(arguments, None)
    async with anyio.create_task_group() as tasks:
        row = socket("owner-memory")
        main.serve_all(tasks, [main.Opening(row, row.at(home), desk)])
        ready()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.5)

sys.exit(main.main("example", "An example.", run))
"""


_RACE = """
import asyncio, socket, sys
from proto.role import main

async def run(arguments, ready):
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    raised = []
    for add, remove in ((loop.add_reader, loop.remove_reader), (loop.add_writer, loop.remove_writer)):
        theirs.send(b"x")
        waiting = loop.create_future()
        add(ours, waiting.set_result, None)
        waiting.add_done_callback(lambda _: remove(ours))
        loop.call_soon(waiting.cancel)  # in one step: it is cancelled, then the bytes are seen, then its callback runs
        await asyncio.sleep(0.05)
        remove(ours)
        waiting = loop.create_future()
        add(ours, waiting.set_result, "bytes")
        assert await waiting == "bytes"
        remove(ours)
    ready()

sys.exit(main.main("example", "An example.", run))
"""


def _start(home: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _DAEMON, "serve", "--home", str(home)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def _wait_ready(daemon: subprocess.Popen[str]) -> None:
    assert daemon.stderr is not None
    for line in daemon.stderr:
        if '"ready"' in line:
            return
    raise AssertionError("never ready")


def test_a_wait_that_is_cancelled_as_its_bytes_arrive_writes_no_traceback() -> None:
    ended = subprocess.run([sys.executable, "-c", _RACE, "serve"], capture_output=True, text=True, check=False)
    assert (ended.returncode, [json.loads(line)["event"] for line in ended.stderr.splitlines()]) == (
        0,
        ["ready", "stopped"],
    )


def test_sigterm_ends_it_with_0_and_a_second_one_changes_nothing(home: Path) -> None:
    with _start(home) as daemon:
        _wait_ready(daemon)
        daemon.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(10) == 0


def test_a_fault_at_start_is_one_sentence_and_1(home: Path) -> None:
    with _start(home) as first:
        _wait_ready(first)
        second = _start(home)
        _, told = second.communicate(timeout=20)
        assert second.returncode == 1
        assert "socket-in-use" in told
        assert "Traceback" not in told
        first.terminate()
        assert first.wait(10) == 0


def test_sigterm_while_it_opens_its_stores_ends_it_with_0(home: Path) -> None:
    opening = _DAEMON.replace(
        "home = main.home_of(arguments, None)",
        "home = main.home_of(arguments, None); print('opening', file=sys.stderr, flush=True);"
        " await anyio.to_thread.run_sync(__import__('time').sleep, 1)",
    )
    command = [sys.executable, "-c", opening, "serve", "--home", str(home)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as daemon:
        assert daemon.stderr is not None
        assert daemon.stderr.readline() == "opening\n"
        daemon.terminate()
        assert daemon.wait(10) == 0


@pytest.mark.parametrize("arguments", [[], ["serve", "--nonsense"]])
def test_a_wrong_command_line_is_usage(home: Path, arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", _DAEMON, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage: example" in done.stderr
