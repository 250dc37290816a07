"""Writes that wait for the owner: memory/pending.jsonl, append-only, a line for a write and one for what became of it.

A line that somebody damaged is no write: it is told of by its number, and the others are not touched by it.

Source: M5a section 5, "Review".
"""

from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from memoryd.identity.edit import IdentityEdit
from memoryd.identity.journal import is_later
from proto.ids import CallId, EditId, SessionId
from proto.labels import DataClass
from proto.role.journal import JsonLines, Torn
from proto.tools import parse_arguments


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A write that waits: what the session asked for, with its label then."""

    id: EditId
    time: str
    session: SessionId
    call: CallId
    action: str
    file: Literal["memory", "user"]
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool
    arguments: dict[str, Any]


class Staged(NamedTuple):
    """What a session was told of a write that was staged, whatever became of it since."""

    id: str
    file: Literal["memory", "user"]


class BadLine(NamedTuple):
    """A line that is no write and no end of one: its number from 1, and why."""

    number: int
    reason: str


def edit_asked(pending: Pending) -> IdentityEdit:
    """The edit that a waiting write asks for.

    Raises:
        ValueError: its arguments are those of no edit of identity, or of another than the line says.

    """
    try:
        edit = parse_arguments("memory", pending.arguments)
    except RecursionError:
        raise ValueError("the arguments are nested too deeply") from None
    if not isinstance(edit, IdentityEdit):
        raise ValueError("a note never waits")  # noqa: TRY004  (one error for all that is wrong with a line)
    if (action_of(edit), edit.file) != (pending.action, pending.file):
        raise ValueError("the arguments are of another action or file than the line says")
    return edit


def action_of(edit: IdentityEdit) -> str:
    """What an edit is called in the journal: `add`, `replace`, `remove` or `consolidate`."""
    return str(type(edit).__struct_config__.tag)


class Review:
    """The writes that wait, oldest first, and every call that ever had one wait."""

    def __init__(self, path: Path) -> None:
        self._lines = JsonLines(path)
        self._waiting: dict[str, Pending] = {}
        self._calls: dict[tuple[str, str], Staged] = {}
        self._ids: set[str] = set()
        self.last_id = ""
        """The latest id that a write was ever staged under, or an empty text."""
        self.bad: list[BadLine] = []
        """The lines that could not be taken for what they should be."""

    def open(self) -> Torn | None:
        """Take up the file; a torn last line that was cut off, or None."""
        torn = self._lines.mend()
        for number, line in enumerate(self._lines.read(), 1):
            if reason := self._read(line):
                self.bad.append(BadLine(number, reason))
        return torn

    def stage(self, pending: Pending) -> None:
        """Keep a write for the owner; on disk when it returns."""
        self._lines.append(msgspec.to_builtins(pending))
        self._take(pending)

    def resolve(self, id: str, how: Literal["accepted", "rejected"], edit: str) -> None:
        """Say what became of a write and which line of the journal says so; nothing if that was said already."""
        if id in self._waiting:
            self._lines.append({"id": id, "resolved": how, "edit": edit})
            del self._waiting[id]

    def find(self, id: str) -> Pending | None:
        """The waiting write of an id."""
        return self._waiting.get(id)

    def find_call(self, session: str, call: str) -> Staged | None:
        """The write that a call was told of when it was staged."""
        return self._calls.get((session, call))

    def waiting(self) -> list[Pending]:
        """The waiting writes, oldest first."""
        return list(self._waiting.values())

    def _read(self, line: dict[str, Any] | None) -> str | None:
        """Take up a line; why it is none of ours, or None."""
        if line is None:
            return "it is not a JSON object"
        if line.get("resolved") in ("accepted", "rejected"):
            self._waiting.pop(str(line.get("id")), None)
            return None
        try:
            pending = msgspec.convert(line, Pending)
            edit_asked(pending)
        except ValueError as error:  # msgspec's error is one
            return str(error)
        if pending.id in self._ids:
            return f"another line has the id {pending.id}"
        self._take(pending)
        return None

    def _take(self, pending: Pending) -> None:
        self._waiting[pending.id] = pending
        self._calls[pending.session, pending.call] = Staged(pending.id, pending.file)
        self._ids.add(pending.id)
        if is_later(pending.id, self.last_id):
            self.last_id = pending.id
