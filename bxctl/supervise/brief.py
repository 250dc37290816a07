"""One question to a box that is not up: the daemon that can answer it runs for as long as that takes.

So `bxctl memory log` and `undo` work after `bxctl run "…"` has ended everything. loopd is left out: at its start it
goes on with unfinished turns, for which it needs the others.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from bxctl.places import OWNER_ROWS, Box
from bxctl.supervise import log, tie
from bxctl.supervise.lock import is_held, only_one
from bxctl.supervise.plan import Program, environment, plan
from proto.faults import Fault
from proto.home import SYSTEM_HOME
from proto.role.ask import ask
from proto.sockets import socket

READY_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.02
_ALONE: Final = frozenset({"memoryd", "brokerd", "egressd"})


def may_run(box: Box, row: str) -> bool:
    """Whether a daemon of a box that is made may be started for a question: it can run alone, and no part is up."""
    return (
        socket(row).server in _ALONE
        and box.home != SYSTEM_HOME
        and not is_held(box.own)
        and not any(box.answers(other) for other in OWNER_ROWS)
    )


def answer(box: Box, row: str, request: msgspec.Struct, *replies: type[msgspec.Struct], timeout_s: float) -> Any:
    """The reply of a daemon that runs for this question alone.

    Raises:
        Fault: `start-failed`, with its own words; what it answers as an error.

    """
    name = socket(row).server
    (program,) = [one for one in plan(box.home, environment(os.environ)).programs if one.name == name]
    with only_one(box.home, box.own), _running(program, box, row):
        return ask(box.socket(row), request, *replies, timeout_s=timeout_s)


@contextmanager
def _running(program: Program, box: Box, row: str) -> Iterator[None]:
    command = (sys.executable, "-I", "-S", str(Path(tie.__file__)), str(os.getpid()), *program.command)
    process = subprocess.Popen(
        command,
        env=program.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not box.answers(row):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Fault("start-failed", f"{program.name} cannot start:\n{_said(process)}")
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        process.terminate()
        try:
            process.communicate(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _said(process: "subprocess.Popen[bytes]") -> str:
    process.kill()
    _, errors = process.communicate()
    return "\n".join(f"  {log.read(line).text}" for line in errors.splitlines()[-3:])
