"""Reading session logs: the complete lines past a point, in pieces of bounded size. It only ever reads `sessions/`.

Source: contract, "Session log": records before the first damaged complete line are indexed and nothing after it; an
unfinished last line is no damage; a log shorter than its progress is read again from the start.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO, Final

import msgspec

from memoryd.index.hits import FIRST_EPOCH, Row
from memoryd.index.walk import DamagedRecord, LogProgress, walk
from proto.ids import is_session_id

_PIECE_RECORDS: Final = 4_000
_PIECE_BYTES: Final = 1 << 23
# A longer line is damage, whether it has an end or not: nobody writes one, and it must be held whole.
_LINE_BYTES: Final = 1 << 26
_TAIL_BYTES: Final = 256


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of a log: its rows, how far it is read with them, and whether the next line is damaged."""

    rows: list[Row]
    progress: LogProgress
    damaged: bool


def log_name(session: str) -> str:
    """A log's name under `sessions/`, as `progress` holds it."""
    return f"{session}/{FIRST_EPOCH}.jsonl"


def session_of(log: str) -> str:
    """The session that a log's name names."""
    return log.partition("/")[0]


def sessions_with_logs(sessions_dir: str) -> list[str]:
    """The sessions that have a log, the one written to last at the end; none when the folder is not there."""
    try:
        names = os.listdir(sessions_dir)
    except FileNotFoundError:
        return []
    written: list[tuple[int, str]] = []
    for name in names:
        with contextlib.suppress(OSError):
            if is_session_id(name):
                written.append((os.lstat(_path(sessions_dir, name)).st_mtime_ns, name))
    return [name for _, name in sorted(written)]


@contextlib.contextmanager
def opened(sessions_dir: str, session: str) -> Iterator[BinaryIO]:
    """A session's log, open for reading.

    Raises:
        FileNotFoundError: there is none.
        OSError: it cannot be read, or is no regular file.

    """
    path = _path(sessions_dir, session)
    # Without O_NONBLOCK a named pipe in the log's place would hold the daemon.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no regular file")
    with open(descriptor, "rb", buffering=1 << 16) as log:
        yield log


def continues(log: BinaryIO, progress: LogProgress) -> bool:
    """Whether a log still begins with what was read of it: not shorter, and the last bytes read are the same."""
    return os.fstat(log.fileno()).st_size >= progress.bytes_read and _tail(log, progress.bytes_read) == progress.tail


def pieces(log: BinaryIO, session: str, progress: LogProgress) -> Iterator[Piece]:
    """The rest of a log from a point on; nothing when there is no new complete line."""
    log.seek(progress.bytes_read)
    at, state = progress.bytes_read, progress.state
    damaged, finished = False, False
    while not (damaged or finished):
        rows: list[Row] = []
        start = at
        for _ in range(_PIECE_RECORDS):
            if at - start >= _PIECE_BYTES:
                break
            line = log.readline(_LINE_BYTES)
            if not line.endswith(b"\n"):
                damaged = len(line) == _LINE_BYTES
                finished = not damaged
                break
            try:
                found, state = walk(session, line, state)
            except DamagedRecord:
                damaged = True
                break
            rows += found
            at += len(line)
        if at > start or damaged:
            here = log.tell()
            yield Piece(
                rows=rows,
                progress=LogProgress(bytes_read=at, tail=_tail(log, at), state=state),
                damaged=damaged,
            )
            log.seek(here)


def _tail(log: BinaryIO, end: int) -> bytes:
    """A digest of the bytes just before a point."""
    if end == 0:
        return b""
    log.seek(max(0, end - _TAIL_BYTES))
    last = log.read(min(end, _TAIL_BYTES))
    return hashlib.blake2b(last, digest_size=16).digest()


def _path(sessions_dir: str, session: str) -> str:
    return os.path.join(sessions_dir, log_name(session))
