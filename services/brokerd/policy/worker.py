"""The worker: a small process that holds one loaded policy and answers over a socket pair, until that closes.

`python -I -m brokerd.policy.worker FD`. The first message loads (`{"modules": [[name, text]]}`), each later one asks
(`{"ask": n, "entrypoint": …, "term": JSON text}`). brokerd ends it by SIGKILL when an answer takes too long.
"""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import Final

from brokerd.policy import pipe
from brokerd.policy.engine import Engine, EngineError, InputError

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_FIRST_TO_GO: Final = "1000"
"""The engine's allocator reserves 256 GiB of address space, so a limit on that cannot be set; the kernel takes this
process first instead (proc_pid_oom_score_adj(5))."""


def main(handle: int) -> int:
    """Serve the socket pair's end; the exit code."""
    _confine()
    with socket.socket(fileno=handle) as connection:
        request = pipe.receive(connection)
        if request is None:
            return 0
        try:
            engine = Engine([(name, text) for name, text in request["modules"]])
        except EngineError as error:
            connection.sendall(pipe.pack({"problem": str(error)}))
            return 0
        connection.sendall(pipe.pack({"problem": None}))
        return _serve(connection, engine)


def _serve(connection: socket.socket, engine: Engine) -> int:
    while request := pipe.receive(connection):
        try:
            answer = engine.ask(request["entrypoint"], request["term"])
        except InputError:
            return 1
        connection.sendall(pipe.pack({"ask": request["ask"], "answer": answer}))
    return 0


def _confine() -> None:
    """End with brokerd, also from inside a pattern that never ends; be the first to go without memory; no core file.

    Starting a program makes a process dumpable again (prctl(2)), so brokerd's own setting does not reach here. It comes
    last, since it takes the files of /proc/self away.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The engine prints what it thinks of a module; brokerd's standard output is not its place.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
