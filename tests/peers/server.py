"""A program that serves a port of loopback, for as long as a test needs it."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serving(*command: str, port: int, environ: dict[str, str] | None = None, wait_s: float = 120) -> Iterator[int]:
    """The program's process id, from when it accepts on the port; it is ended behind the block."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ)
    try:
        deadline = time.monotonic() + wait_s
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert process.poll() is None and time.monotonic() < deadline, f"{command} does not start"
            time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait()
