"""`{home}/sessions/<id>/`: `0.baseline.json`, written once, and `0.jsonl`, appended to. loopd alone writes them.

A torn last line is cut off when a session is loaded. A damaged complete line makes the session one that is refused:
nothing of it is changed, and the owner decides.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from loopd.session.baseline import Baseline
from loopd.session.records import Position, Record, from_line, position, to_line
from proto.escape import clip
from proto.faults import Fault
from proto.ids import is_session_id
from proto.role import durable
from proto.role.journal import JsonLines
from proto.role.log import logger

BASELINE: Final = "0.baseline.json"
LOG: Final = "0.jsonl"
_UNFINISHED: Final = ".tmp"
_REASON_CHARS: Final = 200
_OF_BASELINE: Final = re.compile(rf"({re.escape(BASELINE)}|\.{re.escape(BASELINE)}\.[0-9a-f]+\.tmp)\Z")


class Loaded(NamedTuple):
    """A session as its files tell of it."""

    baseline: Baseline
    records: list[Record]
    position: Position


class Store:
    """The folder of all sessions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        durable.make_folder(folder)
        for left in sorted(folder.glob(f".*{_UNFINISHED}")):
            _sweep(left)

    def ids(self) -> list[str]:
        """The sessions that are there, the one whose log changed last first."""
        found = [(self._changed(entry.name), entry.name) for entry in os.scandir(self._folder) if _is_session(entry)]
        return [name for _, name in sorted(found, reverse=True)]

    def exists(self, session: str) -> bool:
        """Whether there is a session of that id."""
        return (self._folder / session).is_dir()

    def log(self, session: str) -> JsonLines:
        """The log's file."""
        return JsonLines(self._folder / session / LOG)

    def lines(self, session: str) -> Iterator[dict[str, Any] | None]:
        """The complete lines of a log, None for one that is no JSON object.

        Raises:
            Fault: `session-damaged`: the file cannot be read.

        """
        try:
            yield from self.log(session).read()
        except OSError as error:
            raise _damaged(session, f"{LOG}: {error.strerror or error}") from None

    def create(self, baseline: Baseline) -> None:
        """Put a new session on disk: its folder and its baseline, at once.

        Raises:
            Fault: `internal`: it could not be written.

        """
        folder = self._folder / f".{baseline.session}{_UNFINISHED}"
        try:
            folder.mkdir(mode=0o700)
            durable.replace(folder / BASELINE, msgspec.json.encode(baseline))
            folder.rename(self._folder / baseline.session)
            durable.sync_folder(self._folder)
        except OSError as error:
            reason = f"the session {baseline.session} cannot be written: {error.strerror or error}"
            raise Fault("internal", reason) from None

    def load(self, session: str) -> Loaded:
        """A session, with a torn last line cut off; not to be called while the session is in a turn.

        Raises:
            Fault: `session-unknown`, or `session-damaged` with the place.

        """
        loaded = self.load_only(session)
        torn = self.log(session).mend()
        if torn:
            logger().warning("log-torn", session=session, bytes_cut=torn.bytes_cut)
        return loaded

    def load_only(self, session: str) -> Loaded:
        """As `load`, and nothing is changed."""
        if not self.exists(session):
            raise Fault("session-unknown", f"there is no session {session}")
        baseline = self._baseline(session)
        records: list[Record] = []
        for number, line in enumerate(self.lines(session)):
            try:
                records.append(from_line(line))
            except (ValueError, RecursionError) as error:
                raise _damaged(session, f"record {number} of {LOG}: {error}") from None
        try:
            where = position(records)
        except ValueError as error:
            raise _damaged(session, f"{LOG}: {error}") from None
        return Loaded(baseline, records, where)

    def append(self, session: str, *records: Record) -> None:
        """Append records; on disk when it returns.

        Raises:
            Fault: `internal`: they could not be written, and nothing of them stays.

        """
        try:
            self.log(session).append(*map(to_line, records))
        except OSError as error:
            raise Fault("internal", f"the log of {session} cannot be written: {error.strerror or error}") from None

    def is_finished(self, session: str) -> bool:
        """Whether a log ends with an answer, or is empty; looks at its end alone, since all logs are asked at start."""
        last = _last_line(self._folder / session / LOG)
        if last is None:
            return True
        try:
            record = from_line(msgspec.json.decode(last))
            return position([record]).answered
        except (ValueError, RecursionError):
            # A result alone follows nothing, and what is damaged is found by `load`.
            return False

    def _baseline(self, session: str) -> Baseline:
        try:
            return msgspec.json.decode((self._folder / session / BASELINE).read_bytes(), type=Baseline)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _damaged(session, f"{BASELINE}: {error}") from None

    def _changed(self, session: str) -> int:
        """When a session last changed, in nanoseconds."""
        for name in (LOG, BASELINE):
            try:
                return (self._folder / session / name).stat().st_mtime_ns
            except OSError:
                continue
        return 0


def _sweep(left: Path) -> None:
    """Remove a session that a crash left half made: nobody was told of it. Anything else is left where it is."""
    try:
        if _is_half_made(left):
            for file in left.iterdir():
                file.unlink()
            left.rmdir()
            return
        reason = "no session that was being made"
    except OSError as error:
        reason = error.strerror or str(error)
    logger().warning("left-alone", path=str(left), reason=reason)


def _is_half_made(left: Path) -> bool:
    """Whether this is what `create` makes before a session has its name: a folder with its baseline alone."""
    return (
        is_session_id(left.name.removeprefix(".").removesuffix(_UNFINISHED))
        and left.is_dir()
        and not left.is_symlink()
        and all(_OF_BASELINE.match(file.name) and not file.is_dir() for file in left.iterdir())
    )


def _is_session(entry: os.DirEntry[str]) -> bool:
    return is_session_id(entry.name) and entry.is_dir(follow_symlinks=False)


def _damaged(session: str, reason: str) -> Fault:
    shown = clip(reason, _REASON_CHARS)
    return Fault("session-damaged", f"the log of {session} is damaged and was left as it is: {shown}")


def _last_line(path: Path) -> bytes | None:
    """The last complete line of a file, None when there is none; an unfinished or unreadable one is b""."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            tail = b""
            while size and tail.count(b"\n") < 2:
                begin = max(0, size - 65536)
                file.seek(begin)
                tail = file.read(size - begin) + tail
                size = begin
    except FileNotFoundError:
        return None
    except OSError:
        return b""
    if not tail:
        return None
    if not tail.endswith(b"\n"):
        return b""
    return tail[:-1].rpartition(b"\n")[2]
