"""The recall log: memory/recalls/YYYY-MM.jsonl, one line for each recall, with the source of every hit.

Source: M5a section 3; contract, "The files of M5a", "Recall line".
"""

from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any

from proto.role import durable
from proto.role.clock import Clock, stamp
from proto.role.journal import JsonLines, Torn


class Recalls:
    """The log, appended to from any thread."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._lock = Lock()

    def open(self) -> list[Torn]:
        """Make the folder; torn last lines that were cut off."""
        durable.make_folder(self._folder)
        return [torn for path in sorted(self._folder.glob("*.jsonl")) if (torn := JsonLines(path).mend())]

    def append(self, session: str, query: str, hits: Iterable[dict[str, Any]]) -> None:
        """Log a recall; each hit is `{kind, session, epoch, record, time}`."""
        time = stamp(self._clock())
        line = {"time": time, "session": session, "query": query, "hits": list(hits)}
        with self._lock:
            JsonLines(self._folder / f"{time[:7]}.jsonl").append(line)
