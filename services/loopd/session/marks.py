"""`{home}/state/loopd/turns/<id>.json`: how the turn of a session stands that has no answer in its log.

There is a file only while there is something to say: a turn that failed and was told of (it is not resumed at the next
start), one that was resumed (it is not resumed for ever), or a session that is full (it stays so).
"""

from pathlib import Path

import msgspec

from proto.role import durable


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """`record` is the number of the user's record whose turn this is; `ended` is the code that it ended with."""

    record: int
    attempts: int = 0
    ended: str | None = None


NONE = Mark(record=-1)
FULL = "session-full"


class Marks:
    """The marks of all sessions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        durable.make_folder(folder)
        durable.sweep_temporaries(folder)

    def get(self, session: str) -> Mark:
        """The mark of a session; one that cannot be read says nothing."""
        try:
            return msgspec.json.decode(self._path(session).read_bytes(), type=Mark)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return NONE

    def is_full(self, session: str) -> bool:
        """Whether the session's context is full."""
        return self.get(session).ended == FULL

    def attempt(self, session: str, record: int) -> int:
        """Note one more attempt to resume a turn, before it is made; how many there were before."""
        mark = self.get(session)
        before = mark.attempts if mark.record == record else 0
        self._put(session, Mark(record=record, attempts=before + 1))
        return before

    def end(self, session: str, record: int, code: str) -> None:
        """Note that a turn ended without an answer, and that its user was told."""
        self._put(session, Mark(record=record, ended=code))

    def clear(self, session: str) -> None:
        """Nothing more is to be said: the turn has its answer."""
        if self._path(session).exists():
            self._path(session).unlink(missing_ok=True)
            durable.sync_folder(self._folder)

    def _put(self, session: str, mark: Mark) -> None:
        durable.replace(self._path(session), msgspec.json.encode(mark))

    def _path(self, session: str) -> Path:
        return self._folder / f"{session}.json"
