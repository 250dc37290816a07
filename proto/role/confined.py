"""Inside a worker: a small process that does for a daemon what could run long, grow, or end it (`role.worker`).

It ends with its daemon, after so much processor time, or when it would grow beyond so much memory; nobody of the same
uid reads its memory, and it has none of the daemon's environment. Only the standard library, since it starts often.
"""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

LENGTH: Final = struct.Struct(">I")
"""Before each message in either direction: how many bytes it has."""
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_NO_NEW_PRIVS: Final = 38
_FIRST_TO_GO: Final = "1000"


def serve(answer: Callable[[bytes], bytes], *, cpu_s: int | None, memory_bytes: int | None) -> int:
    """Answer the messages of a daemon until it closes; the exit code. `memory_bytes` is what it may grow by."""
    handle, daemon = int(sys.argv[1]), int(sys.argv[2])
    confine(daemon, cpu_s=cpu_s, memory_bytes=memory_bytes)
    with socket.socket(fileno=handle) as connection:
        while (request := receive(connection)) is not None:
            try:
                reply = answer(request)
            except MemoryError:
                return 1
            connection.sendall(LENGTH.pack(len(reply)))
            connection.sendall(reply)
    return 0


def confine(daemon: int, *, cpu_s: int | None, memory_bytes: int | None) -> None:
    """Take from this process what it needs not; `daemon` is the process that started it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != daemon:  # it ended before that was set
        os.kill(os.getpid(), signal.SIGKILL)
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if cpu_s is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    if memory_bytes is not None:
        # What is mapped already counts too (proc_pid_statm(5)).
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def receive(connection: socket.socket) -> bytes | None:
    """The next message, blocking; None when the other end has closed."""
    header = _exactly(connection, LENGTH.size)
    return None if header is None else _exactly(connection, LENGTH.unpack(header)[0])


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(min(count - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return bytes(data)
