"""The owner's files that brokerd reads: read again when one has changed, and only then.

An editor writes when it likes, and a decision is made under what the files say now: so they are looked at (stat) for
every decision. A change within the last second may not show in the times yet, and the files are read again until it
must.
"""

import os
import time
from pathlib import Path
from typing import Final

_SETTLED_NS: Final = 1_000_000_000

Content = bytes | OSError
"""What a file holds, or why it could not be read."""


class Watched:
    """The files of a folder whose names end in a suffix, hidden ones left out; or one file."""

    def __init__(self, path: Path, suffix: str | None) -> None:
        """Watch a folder's files with this suffix; with None, the one file at the path."""
        self._path = path
        self._suffix = suffix
        self._seen: tuple[object, ...] | None = None
        self._contents: dict[str, Content] = {}

    def read(self) -> dict[str, Content]:
        """The contents by name, in the order of the names; nothing for what is not there.

        A folder that cannot be listed is one entry with its own name and the error.
        """
        try:
            found = self._stat()
        except OSError as error:
            self._seen = None
            self._contents = {self._path.name: error}
            return self._contents
        newest = max((max(stat.st_mtime_ns, stat.st_ctime_ns) for stat in found.values()), default=0)
        signature = tuple((name, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_size) for name, s in found.items())
        if signature != self._seen:
            self._contents = {name: self._content(name) for name in found}
            self._seen = signature if newest + _SETTLED_NS < time.time_ns() else None
        return self._contents

    def _stat(self) -> dict[str, os.stat_result]:
        if self._suffix is None:
            return {self._path.name: self._path.stat()} if self._path.exists() else {}
        if not self._path.exists():
            return {}
        with os.scandir(self._path) as entries:
            names = sorted(e.name for e in entries if e.name.endswith(self._suffix) and not e.name.startswith("."))
        # A dangling link has no times, but it is there, and reading it will say so.
        return {name: os.stat(self._path / name, follow_symlinks=(self._path / name).exists()) for name in names}

    def _content(self, name: str) -> Content:
        try:
            return (self._path if self._suffix is None else self._path / name).read_bytes()
        except OSError as error:
            return error
