"""A question to a box that is not up: the daemon that can answer it runs for as long as the command takes.

So `bxctl memory log` and `undo` work after `bxctl run "…"` has ended everything. loopd is left out: at its start it
goes on with unfinished turns, for which it needs the others.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Self

from bxctl.places import OWNER_ROWS, Box
from bxctl.supervise import log, tie
from bxctl.supervise.lock import is_held, only_one
from bxctl.supervise.plan import Program, environment, plan
from proto.faults import Fault
from proto.home import SYSTEM_HOME
from proto.sockets import socket

READY_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.02
_ALONE: Final = frozenset({"memoryd", "brokerd", "egressd"})


class Brief:
    """The daemons that run until the block ends, for the command that is run in it."""

    def __init__(self) -> None:
        self._ends = ExitStack()
        self._rows: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.close()

    def start(self, box: Box, row: str) -> bool:
        """Start the daemon behind an owner socket and wait until it answers; False when it may not be.

        It may when it can run alone, the box is made and the user's own, and no part of it is up but by this.

        Raises:
            Fault: `start-failed`, with the daemon's own words.

        """
        name = socket(row).server
        if name not in _ALONE or row in self._rows or not box.made or box.home == SYSTEM_HOME:
            return False
        if not self._rows:
            if is_held(box.own) or any(box.answers(other) for other in OWNER_ROWS):
                return False
            self._ends.enter_context(only_one(box.home, box.own))
        self._rows.add(row)
        (program,) = [one for one in plan(box.home, environment(os.environ)).programs if one.name == name]
        self._ends.enter_context(_running(program, box, row))
        return True


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
