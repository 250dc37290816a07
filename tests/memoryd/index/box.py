"""An index over logs that a test writes, and short ways to write them."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from memoryd.index import Index, NoteEntry
from proto.labels import PRIVATE, DataClass, Label

TAINTED = Label(class_=DataClass.PRIVATE, untrusted=True)
SECRET = Label(class_=DataClass.SECRET, untrusted=False)


class Box:
    """A home with logs to write and an index over them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sessions = str(root / "sessions")
        self.path = str(root / "index" / "memory.sqlite3")
        self.indexes: list[Index] = []

    def open(self, **settings: Any) -> Index:
        index = Index(self.path, **settings)
        self.indexes.append(index)
        return index

    def log(self, session: str) -> Path:
        return Path(self.sessions, session, "0.jsonl")

    def append(self, session: str, *records: dict[str, Any] | bytes) -> None:
        self.log(session).parent.mkdir(parents=True, exist_ok=True)
        with self.log(session).open("ab") as log:
            for record in records:
                log.write(record if isinstance(record, bytes) else json.dumps(record).encode() + b"\n")

    def dump(self) -> list[tuple[Any, ...]]:
        """Everything the index holds but row ids, in an order of its own."""
        with apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READONLY) as db:
            rows = db.execute(
                "SELECT kind, session, epoch, record, time, role, class, untrusted, author, file, shown.text, hits.text"
                " FROM sources JOIN shown USING (rowid) JOIN hits ON hits.rowid = sources.rowid"
            ).fetchall()
            others = db.execute(
                "SELECT 'log', log, records, bytes, tail, class, untrusted FROM progress JOIN walks USING (log)"
                " UNION ALL SELECT 'term', term, rows, 0, 0, 0, 0 FROM terms"
                " UNION ALL SELECT 'total', name, value, 0, 0, 0, 0 FROM totals"
                " UNION ALL SELECT 'note', position, digest, hit IS NULL, 0, 0, 0 FROM notes"
            ).fetchall()
        return sorted(rows, key=repr) + sorted(others, key=repr)


def user(text: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "user", "time": "2026-09-20T14:02:00Z", "text": text, "author": None, **fields}


def assistant(text: str | None, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    listed = [{"id": str(at), "name": name, "arguments": arguments} for at, (name, arguments) in enumerate(calls)]
    return {"kind": "assistant", "time": "2026-09-20T14:03:00Z", "content": text, "tool_calls": listed}


def result(class_: str = "private", untrusted: bool = False) -> dict[str, Any]:
    fields = {"call": "0", "name": "f", "content": "zebra", "class": class_, "untrusted": untrusted}
    return {"kind": "tool_result", "time": "2026-09-20T14:02:30Z", **fields}


def note(position: int, text: str, how: str = "noted", label: Label = PRIVATE) -> NoteEntry:
    return NoteEntry(
        position=position,
        how=how,  # type: ignore[arg-type]
        time="2026-09-24T20:14Z",
        session="chat-9",
        file=None if how == "noted" else "memory.md",
        label=label,
        text=text,
    )


def with_home(check: Callable[[Box], None]) -> None:
    """As the fixture, for a property."""
    with tempfile.TemporaryDirectory(prefix="bx") as root:
        box = Box(Path(root))
        try:
            check(box)
        finally:
            for index in box.indexes:
                index.close()
