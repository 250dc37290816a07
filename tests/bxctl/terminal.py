"""A terminal for a test: a program runs on a pseudo-terminal, keys are typed, what it printed is waited for."""

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from proto.escape import escape_lines

# A session of its own, whose terminal is standard input, so that ^C is a signal; then the program.
_LEAD = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
_WHERE_IS_THE_CURSOR = b"\x1b[6n"
_PATIENCE_SECONDS = 20.0


class Terminal:
    """The person's side of a pseudo-terminal."""

    def __init__(self, master: int, process: "subprocess.Popen[bytes]") -> None:
        self._master = master
        self._process = process
        self.printed = ""

    @property
    def pid(self) -> int:
        """The process id of the program."""
        return self._process.pid

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def wait_for(self, text: str) -> None:
        """Wait until a text is printed after what was waited for before."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while text not in self.printed:
            if time.monotonic() > deadline or not self._read():
                raise AssertionError(f"never printed {text!r}; printed: {escape_lines(self.printed)}")
        self.printed = self.printed.split(text, 1)[1]

    def ended(self) -> int:
        """The exit code, once the program has ended."""
        while self._read():
            pass
        return self._process.wait(_PATIENCE_SECONDS)

    def _read(self) -> bool:
        readable, _, _ = select.select([self._master], [], [], _PATIENCE_SECONDS)
        try:
            data = os.read(self._master, 65536) if readable else b""
        except OSError:  # the program has closed its side
            data = b""
        if _WHERE_IS_THE_CURSOR in data:
            os.write(self._master, b"\x1b[1;1R")
        self.printed += data.decode(errors="replace")
        return bool(data)


@contextmanager
def running(*words: str, environ: dict[str, str], columns: int = 100) -> Iterator[Terminal]:
    """`bxctl` with these words on a terminal."""
    kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (30, columns))
    process = subprocess.Popen(
        [sys.executable, "-c", _LEAD, sys.executable, "-m", "bxctl.cli", *words],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env={**kept, "TERM": "xterm", "NO_COLOR": "1", **environ},
    )
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)
