"""A memoryd without its sockets: the holdings of a home, and short ways to use them."""

import itertools
import json
from pathlib import Path
from typing import Any

from memoryd import app
from memoryd.acts import write
from memoryd.config import Config
from memoryd.holdings import Holdings
from proto.labels import PRIVATE, DataClass, Label
from proto.role.journal import JsonLines
from proto.tools import MemoryArguments, parse_arguments

UNTRUSTED = Label(class_=DataClass.PRIVATE, untrusted=True)
SECRET = Label(class_=DataClass.SECRET, untrusted=False)
SOUL = b"A soul.\n"


def add(text: str, file: str = "memory") -> dict[str, Any]:
    return {"action": "add", "file": file, "text": text}


def note(text: str) -> dict[str, Any]:
    return {"action": "note", "text": text}


def remove(old: str, file: str = "memory") -> dict[str, Any]:
    return {"action": "remove", "file": file, "old": old}


def replace(old: str, text: str, file: str = "memory") -> dict[str, Any]:
    return {"action": "replace", "file": file, "old": old, "text": text}


def consolidate(*entries: dict[str, Any], file: str = "memory") -> dict[str, Any]:
    return {"action": "consolidate", "file": file, "entries": list(entries)}


def append_records(home: Path, session: str, *records: dict[str, Any]) -> None:
    """Append to a session's log, as loopd does."""
    path = home / "sessions" / session / "0.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps({"time": "2026-09-20T14:02:00Z", **record}) + "\n")


class Box:
    """A home that can be opened again and again."""

    def __init__(self, home: Path, settings: Config | None = None) -> None:
        self.home = home
        self.settings = settings or Config()
        self._calls = itertools.count(1)
        self.holdings: Holdings = app.open_holdings(home, self.settings, SOUL)

    def reopen(self, settings: Config | None = None) -> "Box":
        """What a new start finds."""
        self.close()
        again = Box(self.home, settings or self.settings)
        again._calls = self._calls
        return again

    def close(self) -> None:
        self.holdings.index.close()

    def call(
        self, arguments: dict[str, Any], label: Label = PRIVATE, session: str = "chat-a", call: str | None = None
    ) -> str:
        """The sentence that a write is answered with; raises Refusal."""
        parsed = parse_arguments("memory", arguments)
        assert isinstance(parsed, MemoryArguments)
        named = call or f"c{next(self._calls)}"
        asked = write.Call(session=session, call=named, label=label, arguments=parsed, raw=arguments)
        return write.write(self.holdings, asked, lambda: True)

    def lines(self) -> list[dict[str, Any]]:
        """The edit journal as it lies on disk."""
        return [
            json.loads(line)
            for path in sorted((self.home / "memory" / "edits").glob("*.jsonl"))
            for line in path.read_text(encoding="utf-8").splitlines()
        ]

    def lines_read(self) -> list[dict[str, Any]]:
        """The lines of the edit journal that can be read, where somebody damaged others."""
        return [
            line
            for path in sorted((self.home / "memory" / "edits").glob("*.jsonl"))
            for line in JsonLines(path).read()
            if line is not None
        ]

    def text(self, name: str) -> str:
        return self.path(name).read_bytes().decode()

    def path(self, name: str) -> Path:
        return self.home / "memory" / name

    def log(self, session: str, *records: dict[str, Any]) -> None:
        """Append to a session's log, as loopd does."""
        append_records(self.home, session, *records)

    def by_hand(self, name: str, text: str) -> None:
        """Save a file of memory/ as an editor does that renames."""
        beside = self.home / "memory" / f"{name}~"
        beside.write_bytes(text.encode())
        beside.rename(self.path(name))
