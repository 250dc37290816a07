"""Files that an editor may change at any moment: reading them whole, swapping a new one in, appending.

No symbolic link is followed. A file that some program has open for writing is waited for, up to `_PATIENCE_S`: an
editor that writes in place empties the file first, and what it is about to write must be neither missed nor
overwritten. The kernel says whether there is such a program when a read lease is asked for (fcntl(2), "Leases").
"""

import errno
import fcntl
import hashlib
import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from proto.role import durable
from proto.role.exchange import exchange as _exchange

exchange: Final = _exchange
_PATIENCE_S: Final = 1.0
_MISSING_PATIENCE_S: Final = 0.2
_POLL_S: Final = 0.001


class Unreadable(Exception):
    """A file cannot be read as what it should be; the message says why, and does not name the file."""


def read(path: Path, limit_bytes: int) -> bytes:
    """The content of a regular file, once no program has it open for writing.

    Raises:
        Unreadable: it is missing, a symbolic link, no regular file, too large, or the system refuses.

    """
    try:
        handle = _open_patiently(path)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise Unreadable("it is not a regular file")
            with _leased(handle):
                size = os.fstat(handle).st_size
                if size > limit_bytes:
                    raise Unreadable(f"it has {size:,} bytes, more than {limit_bytes:,}")
                return _read_whole(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise Unreadable(_reason(error)) from None


@contextmanager
def _leased(handle: int) -> Iterator[bool]:
    """Hold the file's read lease, once no program has it open for writing; whether that came true in time.

    While it is held, a program that opens the file for writing, and would empty it, waits.
    """
    until = time.monotonic() + _PATIENCE_S
    while not (free := _lease(handle)) and time.monotonic() <= until:
        time.sleep(_POLL_S)
    try:
        yield free
    finally:
        if free:
            with suppress(OSError):
                fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def is_quiet(path: Path) -> bool:
    """Whether no program has the file open for writing, after waiting for one that has.

    Raises:
        OSError: it cannot be opened.

    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        with _leased(handle) as free:
            return free
    finally:
        os.close(handle)


def require_quiet(path: Path) -> None:
    """Refuse to go on while a program has the file open for writing: what it is about to write would be lost.

    Raises:
        Unreadable: one has, though it was waited for.
        OSError: the file cannot be opened.

    """
    if not is_quiet(path):
        raise Unreadable("another program has it open for writing")


def prove_exchange(folder: Path) -> None:
    """Try `exchange` once, so that a file system that cannot do it is known at start.

    Raises:
        OSError: it cannot.

    """
    one, other = durable.write_temporary(folder / "one", b""), durable.write_temporary(folder / "other", b"")
    try:
        exchange(one, other)
    finally:
        one.unlink()
        other.unlink()


def append(path: Path, data: bytes) -> bool:
    """Append to a file that is there, on disk when it returns; whether it is still the file at that path then."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        durable.write_whole(handle, data)
        os.fsync(handle)
        return os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
    finally:
        os.close(handle)


def truncate(path: Path, size_bytes: int) -> None:
    """Cut a file to a size, on disk when it returns."""
    handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.ftruncate(handle, size_bytes)
        os.fsync(handle)
    finally:
        os.close(handle)


def create(path: Path, data: bytes) -> bool:
    """Make a file unless something has its name already; whether it was made."""
    if os.path.lexists(path):
        return False
    temporary = durable.write_temporary(path, data)
    try:
        os.link(temporary, path, follow_symlinks=False)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    durable.sync_folder(path.parent)
    return True


def tighten(path: Path) -> None:
    """Take the rights of others to a regular file of ours away."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return  # reading it says why
    try:
        found = os.fstat(handle)
        if stat.S_ISREG(found.st_mode) and found.st_mode & 0o077 and found.st_uid == os.geteuid():
            os.fchmod(handle, 0o600)
    finally:
        os.close(handle)


def sha256(data: bytes) -> str:
    """SHA-256 in lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _open_patiently(path: Path) -> int:
    """Open a file; an editor may have moved the old one away and be about to make the new one."""
    until = time.monotonic() + _MISSING_PATIENCE_S
    while True:
        try:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            if time.monotonic() > until:
                raise
            time.sleep(_POLL_S)


def _lease(handle: int) -> bool:
    """Take the read lease, unless a program has the file open for writing; where none is to be had, nobody is known to.

    A program that opens the file meanwhile is told of by a signal that everybody ignores.
    """
    try:
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return error.errno != errno.EAGAIN
    return True


def _read_whole(handle: int) -> bytes:
    pieces = []
    while piece := os.read(handle, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it is a symbolic link, which is not followed"
    if error.errno == errno.ENOENT:
        return "it is missing; memoryd makes an empty one when it starts"
    return error.strerror or str(error)
