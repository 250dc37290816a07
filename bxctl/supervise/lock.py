"""One `bxctl up` a home: a lock that ends with the process that holds it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proto.faults import Fault
from proto.role import durable


@contextmanager
def only_one(home: Path, folder: Path) -> Iterator[None]:
    """Hold the lock of a home.

    Raises:
        Fault: `box-is-up`: another process holds it; the sentence names it.

    """
    durable.make_folder(folder)
    handle = os.open(folder / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(handle, 20).decode(errors="replace")
            raise Fault("box-is-up", f"a box is up already on {home}; to stop it: kill {pid}") from None
        os.truncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def is_held(folder: Path) -> bool:
    """Whether a process holds the lock of a home now."""
    try:
        handle = os.open(folder / "up.lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
