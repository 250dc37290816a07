"""A daemon's part of a backup: every file that it alone writes, streamed to the owner while it works on.

What must agree is taken at one moment by the daemon itself (`take`, under its own locks): an open file goes on to be
read as it was, whatever takes its name, and of an append-only log only what was whole then. The rest is read when its
turn comes, and needs no more: in a folder what says of others (`.json`) is read after them, so that it speaks of
nothing that is not there, and a log is cut at a whole line.
"""

import io
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

import anyio
import anyio.to_thread

from proto.faults import Fault
from proto.home import FORMAT, NOT_BACKED_UP, PATHS
from proto.messages.wire import BackupEnd, BackupFile, BackupPiece, ChainedJournal
from proto.role.journal import end_of_last_line
from proto.role.log import logger
from proto.role.migration import COPY
from proto.role.serve import Connection

PIECE_BYTES: Final = (1 << 20) - 256
"""With the map around it, a piece fills a frame."""
_READ_AT_ONCE_BYTES: Final = 1 << 16
_MOST_AT_ONCE: Final = 32
_LOG: Final = ".jsonl"
_SAYS_OF_OTHERS: Final = ".json"
_NOT_COPIED: Final = (".sqlite3", ".sqlite3-wal", ".sqlite3-shm")
"""A database is copied by its store, never as a file that is written meanwhile."""
_BEING_MADE: Final = (".tmp", ".lock")
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Taken(NamedTuple):
    """A file of the part: its path under the home, and what is read of it."""

    path: str
    file: IO[bytes]
    size_bytes: int
    mtime_ns: int


def take(home: Path, *paths: str) -> list[Taken]:
    """The files at these paths and below them, as they are now. What is missing, or no regular file, is left out.

    Raises:
        OSError: one cannot be read.

    """
    return [taken for path in paths for name in _names(home, path) if (taken := taken_of(home, name)) is not None]


def taken_of(home: Path, path: str) -> Taken | None:
    """A file as it is now; None when there is none."""
    try:
        handle = os.open(home / path, _OPEN)
    except (FileNotFoundError, NotADirectoryError):
        return None
    file = open(handle, "rb")  # noqa: SIM115  (`send` closes it)
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        file.close()
        return None
    size = end_of_last_line(file, found.st_size) if path.endswith(_LOG) else found.st_size
    file.seek(0)
    if size > _READ_AT_ONCE_BYTES:
        return Taken(path, file, size, found.st_mtime_ns)
    with file:
        data = file.read(size)
    return Taken(path, io.BytesIO(data), len(data), found.st_mtime_ns)


async def send(
    connection: Connection,
    home: Path,
    daemon: str,
    now: Sequence[Taken] = (),
    journals: Sequence[ChainedJournal] = (),
) -> BackupEnd:
    """Stream a daemon's part: what was taken at one moment, then the rest; the frame that ends it.

    Raises:
        Fault: `backup-changed`.
        OSError: a file cannot be read.
        anyio.BrokenResourceError, TimeoutError: nobody reads the part any more.

    """
    count = 0
    several: Sequence[Taken] = ()
    try:
        files = _all(home, daemon, now)
        while several := await anyio.to_thread.run_sync(_next, files):
            for taken in several:
                await _send_file(connection, taken)
            count += len(several)
    finally:
        for taken in (*several, *now):
            taken.file.close()
    return BackupEnd(format=FORMAT, files=count, journals=list(journals))


async def _send_file(connection: Connection, taken: Taken) -> None:
    with taken.file:
        await connection.send(BackupFile(path=taken.path, size_bytes=taken.size_bytes, mtime_ns=taken.mtime_ns))
        left = taken.size_bytes
        while left:
            piece = await _read(taken.file, min(left, PIECE_BYTES))
            if not piece:
                raise Fault("backup-changed", f"{taken.path} became shorter while it was read; try again")
            await connection.send(BackupPiece(data=piece))
            left -= len(piece)


async def _read(file: IO[bytes], count: int) -> bytes:
    if isinstance(file, io.BytesIO):
        return file.read(count)
    return await anyio.to_thread.run_sync(file.read, count)


def _next(files: Iterator[Taken]) -> list[Taken]:
    """The next files, as many as were read at once: a way to a thread and back for each of very many costs most."""
    several: list[Taken] = []
    for taken in files:
        several.append(taken)
        if len(several) == _MOST_AT_ONCE or not isinstance(taken.file, io.BytesIO):
            break
    return several


def _all(home: Path, daemon: str, now: Sequence[Taken]) -> Iterator[Taken]:
    yield from now
    known = {taken.path for taken in now}
    for row in PATHS:
        if row.writer == daemon and row.path not in NOT_BACKED_UP:
            for name in _names(home, row.path):
                if name not in known and (taken := taken_of(home, name)) is not None:
                    yield taken


def _names(home: Path, path: str) -> Iterator[str]:
    """The files at a path and below it; not what is being made, a link, a database, or the copy of an older format."""
    if not path.endswith("/") and not (home / path).is_dir():
        yield path
        return
    with suppress(FileNotFoundError, NotADirectoryError):
        folders: list[str] = []
        files: list[str] = []
        with os.scandir(home / path) as entries:
            for entry in entries:
                if _is_wanted(path, entry):
                    (folders if entry.is_dir() else files).append(entry.name)
        for name in sorted(files, key=lambda name: (name.endswith(_SAYS_OF_OTHERS), name)):
            yield os.path.join(path, name)
        for name in sorted(folders):
            yield from _names(home, os.path.join(path, name, ""))


def _is_wanted(path: str, entry: os.DirEntry[str]) -> bool:
    name = entry.name
    if entry.is_symlink() or (name.startswith(".") and name.endswith(_BEING_MADE)) or name.endswith(_NOT_COPIED):
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        logger().warning("not-backed-up", folder=path, reason="a name that is not UTF-8")
        return False
    return not (path.startswith("state/") and name.startswith(COPY))
