"""The edit journal: one line for each change of memory.md, user.md and notes.md, one chain over edits/YYYY-MM.jsonl.

Ids come from the journal itself: the number goes on from the last line's, and the date never goes below it, whatever
the clock does. What a file should hold is what the last line of it says. What a call has done is found by the call.

Source: contract, "The files of M5a".
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from proto.ids import EditId, is_edit_id
from proto.labels import DataClass
from proto.role.clock import stamp
from proto.role.journal import FileState, Journal, JsonLines, Torn, read_line
from proto.role.log import logger

TEXT_FIELDS: Final = ("before", "after")
_BREAK: Final = "chain_break"
_BLOCK_BYTES: Final = 65536

By = Literal["agent", "owner"]
Text = str | dict[str, str]
"""An entry, or the digest that an erased one has left."""
Breathe = Callable[[], None]
"""Called again and again while something takes long; it raises when that is not wanted any more."""


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `before` and `after` are the whole lists of entries, of notes only the changed ones; an erased text
    is a map. `went_to` is the file that changed, or None for a write that the owner rejected.
    """

    id: EditId
    time: str
    session: str | None
    call: str | None
    action: str
    file: Literal["memory", "user", "notes"]
    went_to: Literal["memory.md", "user.md", "notes.md"] | None
    before: list[Text]
    after: list[Text]
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool
    by: By


def edit_of(line: dict[str, Any]) -> Edit | None:
    """The edit of a line, or None for a line that is none (a break of the chain, a damaged one)."""
    if _BREAK in line:
        return None
    try:
        return msgspec.convert(line, Edit)
    except msgspec.ValidationError:
        return None


def is_later(one: str, other: str) -> bool:
    """Whether an id was given after another."""
    return _order(one) > _order(other)


def texts(entries: list[Text]) -> list[str] | None:
    """The entries, or None when one of them was erased."""
    found = [entry for entry in entries if isinstance(entry, str)]
    return found if len(found) == len(entries) else None


class EditJournal:
    """The journal under memory/edits/, and what follows from it."""

    def __init__(self, folder: Path, heads: Path) -> None:
        self._folder = folder
        self._journal = Journal(folder, "*.jsonl", heads, TEXT_FIELDS)
        self._last_id = ""
        self._latest: dict[str, Edit] = {}
        self._calls: dict[str, str] = {}

    def open(self, now: datetime, breathe: Breathe = lambda: None) -> tuple[list[Torn], list[FileState]]:
        """Take up the journal: torn lines that were cut off, and the files whose chain is broken, if that is news."""
        known: list[Any] = []

        def visit(line: dict[str, Any]) -> None:
            breathe()
            if edit := edit_of(line):
                self._take(edit)
            elif isinstance(told := line.get("breaks"), list):
                known.extend(told)

        torn, bad = self._journal.open(visit)
        breaks = [{"path": state.path.name, "first_bad": state.first_bad} for state in bad]
        news = [state for state, found in zip(bad, breaks, strict=True) if found not in known]
        if news:
            name = max([(self._last_id or stamp(now))[:7] + ".jsonl", *(path.name for path in self._journal.files())])
            # Where its own line will stand is bad too, in a file that was good.
            own = {"path": name, "first_bad": self._lines_in(name) + 1}
            self._journal.mark_break(name, {"time": stamp(now), "breaks": [*breaks, own]})
        return torn, news

    def new_id(self, now: datetime, *others: str) -> str:
        """The next id; `others` are ids outside the journal that must not be used again."""
        last = max(self._last_id, *others, "", key=_order)
        today = stamp(now)[:10]
        date, number = _order(last)
        return f"{today}-0001" if today > date else f"{date}-{number + 1:04}"

    def append(self, line: dict[str, Any]) -> None:
        """Append the line of an edit; on disk when it returns.

        Raises:
            OSError: it is not.

        """
        try:
            self._journal.append(f"{line['id'][:7]}.jsonl", line)
        except OSError as error:
            # Only its head may not have been kept, and a head may be behind.
            if self.find(line["id"]) is None:
                raise
            logger().error("head-not-kept", id=line["id"], error=str(error))
        if edit := edit_of(line):
            self._take(edit)

    def latest(self, name: str) -> Edit | None:
        """The last edit that changed a file of memory/."""
        return self._latest.get(name)

    def find(self, id: str) -> dict[str, Any] | None:
        """The line of an id, as it is stored."""
        path = self._folder / f"{id[:7]}.jsonl"
        if not is_edit_id(id) or not path.exists():
            return None
        with path.open("rb") as file:
            for raw in file:
                # Most lines need not be decoded to know that they are others.
                if id.encode() in raw and raw.endswith(b"\n"):
                    line = read_line(raw)
                    if line is not None and line.get("id") == id and edit_of(line):
                        return line
        return None

    def find_call(self, session: str, call: str) -> Edit | None:
        """What a call did, or what the owner did with its write when it was a waiting one."""
        found = self._calls.get(_key(session, call))
        line = self.find(found) if found else None
        return edit_of(line) if line else None

    def knows_call(self, session: str, call: str) -> bool:
        """Whether `find_call` finds something, at once."""
        return _key(session, call) in self._calls

    def last(self, count: int) -> list[dict[str, Any]]:
        """The lines of the last edits as they are stored, newest last."""
        found: list[dict[str, Any]] = []
        for path in reversed(self._journal.files()):
            for raw in _backwards(path):
                if len(found) >= count:
                    return found[::-1]
                line = read_line(raw)
                if line is not None and edit_of(line):
                    found.append(line)
        return found[::-1]

    def edits(self) -> Iterator[Edit]:
        """Every edit, oldest first."""
        for line in self._journal.lines():
            if edit := edit_of(line):
                yield edit

    def verify(self) -> list[FileState]:
        """The state of each file's chain."""
        return self._journal.verify()

    def written_by_sessions(self, name: str) -> set[str]:
        """The entries that a file has held and that a session, not the owner's hand, last brought in."""
        authors: dict[str, By] = {}
        for edit in self.edits():
            before, after = texts(edit.before), texts(edit.after)
            if edit.went_to == name and before is not None and after is not None and edit.action != "undo":
                authors.update(dict.fromkeys(Counter(after) - Counter(before), edit.by))
        return {entry for entry, by in authors.items() if by == "agent"}

    def _take(self, edit: Edit) -> None:
        self._last_id = max(self._last_id, edit.id, key=_order)
        if edit.went_to is not None:
            self._latest[edit.went_to] = edit
        if edit.session is not None and edit.call is not None:
            self._calls[_key(edit.session, edit.call)] = edit.id

    def _lines_in(self, name: str) -> int:
        return sum(1 for _ in JsonLines(self._folder / name).read())


def _order(id: str) -> tuple[str, int]:
    """What ids are ordered by: the number grows past four digits."""
    return (id[:10], int(id[11:])) if id else ("", 0)


def _key(session: str, call: str) -> str:
    return f"{session} {call}"


def _backwards(path: Path) -> Iterator[bytes]:
    """The complete lines of a file, the last one first."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        # The end of a line whose beginning was not read yet, in pieces, the last one first.
        pieces: list[bytes] = []
        while end:
            begin = max(0, end - _BLOCK_BYTES)
            file.seek(begin)
            first, *lines = file.read(end - begin).split(b"\n")
            if lines:
                lines[-1] += b"".join(reversed(pieces))
                yield from (line for line in reversed(lines) if line)
                pieces = []
            pieces.append(first)
            end = begin
        if line := b"".join(reversed(pieces)):
            yield line
