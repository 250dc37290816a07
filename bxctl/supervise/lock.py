"""One `bxctl up` a home: a lock that ends with the process that holds it."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from proto.faults import Fault
from proto.role import durable

_BRIEF_SECONDS: Final = 2.0


@contextmanager
def only_one(home: Path, folder: Path, model: str = "") -> Iterator[None]:
    """Hold the lock of a home; `model` is what answers in it, for who asks `holder`.

    Raises:
        Fault: `box-is-up`: another process holds it; the sentence names it.

    """
    durable.make_folder(folder)
    handle = os.open(folder / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _taken(handle):
            pid, _ = _said(handle)
            raise Fault("box-is-up", f"a box is up already on {home}; to stop it: kill {pid}")
        os.truncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n{model}".encode(), 0)
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    """Whether the lock could be had; a command that holds it for one question is waited for."""
    deadline = time.monotonic() + _BRIEF_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        else:
            return True


def holder(folder: Path) -> tuple[str, str] | None:
    """The process that holds the lock of a home, and the model that answers in it; None when nobody holds it."""
    if not is_held(folder):
        return None
    handle = os.open(folder / "up.lock", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _said(handle)
    finally:
        os.close(handle)


def _said(handle: int) -> tuple[str, str]:
    pid, _, model = os.pread(handle, 400, 0).decode(errors="replace").partition("\n")
    return pid, model


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
