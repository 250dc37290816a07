"""The recall log: memory/recalls/YYYY-MM.jsonl, one line for each recall, with the source of every hit.

Source: M5a section 3; contract, "The files of M5a", "Recall line".
"""

from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any

from memoryd.trail.served import Served
from proto.role import durable
from proto.role.clock import Clock, stamp
from proto.role.journal import JsonLines, Torn, read_line


class Recalls:
    """The log, appended to from any thread."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._lock = Lock()
        self._served = Served()

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
            self._served.note(line)

    def served(self, session: str, until: str) -> list[str]:
        """The ids of the entries that recalls of a session were answered with by a time, first served first.

        The log is read for it once, and then kept up with. Called by one thread at a time.

        Raises:
            OSError: the log cannot be read.

        """
        with self._lock:
            is_new = self._served.begin(session)
        if is_new:
            self._read(session)
        with self._lock:
            return self._served.until(session, until)

    def _read(self, session: str) -> None:
        """Take up a session's lines. What is appended meanwhile is noted too, and twice is once."""
        named = f'"{session}"'.encode()
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open("rb") as file:
                for raw in file:
                    if named in raw and (line := read_line(raw)) is not None:
                        with self._lock:
                            self._served.note(line)
