"""Writes that wait for the owner: memory/pending.jsonl, append-only, a line for a write and one for what became of it.

Source: M5a section 5, "Review".
"""

from pathlib import Path
from typing import Any, Literal

import msgspec

from proto.ids import EditId
from proto.labels import DataClass
from proto.role.journal import JsonLines, Torn


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A write that waits: what the session asked for, with its label then."""

    id: EditId
    time: str
    session: str
    call: str
    action: str
    file: Literal["memory", "user"]
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool
    arguments: dict[str, Any]


class Review:
    """The writes that wait, oldest first."""

    def __init__(self, path: Path) -> None:
        self._lines = JsonLines(path)
        self._all: list[Pending] = []
        self._waiting: dict[str, Pending] = {}

    def open(self) -> Torn | None:
        """Take up the file; a torn last line that was cut off, or None."""
        torn = self._lines.mend()
        for line in self._lines.read():
            if line is None:
                continue
            if line.get("resolved") in {"accepted", "rejected"}:
                self._waiting.pop(str(line.get("id")), None)
                continue
            try:
                self._take(msgspec.convert(line, Pending))
            except msgspec.ValidationError:
                continue  # no line of ours; the owner may have written it
        return torn

    @property
    def last_id(self) -> str:
        """The id of the last write that was ever staged, or an empty text."""
        return self._all[-1].id if self._all else ""

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

    def waiting(self) -> list[Pending]:
        """The waiting writes, oldest first."""
        return list(self._waiting.values())

    def staged(self) -> list[Pending]:
        """Every write that was ever staged, oldest first."""
        return list(self._all)

    def _take(self, pending: Pending) -> None:
        self._all.append(pending)
        self._waiting[pending.id] = pending
