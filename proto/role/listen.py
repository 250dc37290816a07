"""Binding a daemon's socket: 0600 in a folder 0700, one daemon a socket, nothing live or foreign ever removed.

A socket that systemd passed (`LISTEN_FDS`) is taken as it is, without check and bind.
"""

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from proto.faults import Fault
from proto.role import durable

_LONGEST_PATH_BYTES: Final = 107
"""sun_path is 108 bytes with its final NUL (unix(7))."""
_FIRST_PASSED_FD: Final = 3
_BACKLOG: Final = 4096
"""A client of a Unix socket is turned away, not kept waiting, when this is full (connect(2), EAGAIN); the kernel has a
bound of its own (net.core.somaxconn)."""


def listen(path: Path) -> socket.socket:
    """A non-blocking listening socket at a path.

    Raises:
        Fault: `socket-path-too-long`, `socket-in-use` (a live daemon), `socket-not-ours` (not a socket).

    """
    return _at(path, socket.SOCK_STREAM)


def datagrams(path: Path) -> socket.socket:
    """A non-blocking socket at a path that receives datagrams; each comes with its sender's credentials (unix(7)).

    Raises:
        Fault: as `listen`.

    """
    receiving = _at(path, socket.SOCK_DGRAM)
    receiving.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return receiving


def clear(path: Path) -> None:
    """Remove a socket of datagrams that nobody holds any more; whatever else is at the path stays."""
    if path.parent.is_dir():
        with suppress(Fault), _locked(path):
            _clear(path, socket.SOCK_DGRAM)


def _at(path: Path, kind: socket.SocketKind) -> socket.socket:
    if passed := _passed().get(str(path)):
        passed.setblocking(False)
        return passed
    if len(os.fsencode(path)) > _LONGEST_PATH_BYTES:
        raise Fault(
            "socket-path-too-long",
            f"{path}: longer than {_LONGEST_PATH_BYTES} bytes; choose a shorter home",
        )
    durable.make_folder(path.parent)
    with _locked(path):
        _clear(path, kind)
        return _bind(path, kind)


def _bind(path: Path, kind: socket.SocketKind) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    if kind == socket.SOCK_STREAM:
        listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


def linked(path: Path) -> Fault:
    """What is said of a place where a symbolic link stands: it may lead anywhere, and is not followed."""
    return Fault("socket-not-ours", f"{path}: there is a symbolic link; move it away")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file beside a socket, so that two daemons do not check and bind at once."""
    lock = path.with_name(f".{path.name}.lock")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise linked(lock) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _clear(path: Path, kind: socket.SocketKind) -> None:
    """Remove a socket that nobody listens on; leave everything else and say so."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise Fault("socket-not-ours", f"{path}: there is something that is not a socket; move it away")
    with socket.socket(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC) as probe:
        probe.setblocking(False)
        refused = probe.connect_ex(str(path)) == errno.ECONNREFUSED
    if not refused:
        raise Fault("socket-in-use", f"{path}: another daemon already serves this socket")
    path.unlink()


def _passed() -> dict[str, socket.socket]:
    """The listening sockets that systemd passed, by path (sd_listen_fds(3))."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return {}
    found: dict[str, socket.socket] = {}
    for number in range(int(os.environ.get("LISTEN_FDS", "0"))):
        passed = socket.socket(fileno=os.dup(_FIRST_PASSED_FD + number))
        name = passed.getsockname()
        if passed.family == socket.AF_UNIX and isinstance(name, str):
            found[name] = passed
        else:
            passed.close()
    return found
