"""Finds the processes that a step of the gate left running, however they detached themselves.

A process whose parent ends is handed to the nearest ancestor that asked for it (prctl(2), PR_SET_CHILD_SUBREAPER), so after
`adopt` everything that a finished step left is a child of this process.
"""

import ctypes
import os
import signal
import time

PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Become the one to whom orphans of this process's descendants are handed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def end_all(grace_s: float = 2.0) -> list[str]:
    """End every descendant that is still there after `grace_s`; their command lines, for the report."""
    deadline_s = time.monotonic() + grace_s
    while _children() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    left: list[str] = []
    while children := _children():  # the children of an ended one are handed to this process, and found next
        for pid in children:
            left.append(_command_line(pid))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return left


def _children() -> list[int]:
    """The living children; those that have ended are reaped on the way."""
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children", encoding="ascii") as listing:
        pids = [int(pid) for pid in listing.read().split()]
    return [pid for pid in pids if os.waitpid(pid, os.WNOHANG) == (0, 0)]


def _command_line(pid: int) -> str:
    with open(f"/proc/{pid}/cmdline", "rb") as words:
        return words.read().replace(b"\0", b" ").decode(errors="replace").strip() or f"process {pid}"
