"""The owner's files that brokerd reads: read again when one has changed, and only then.

An editor writes when it likes, and a decision is made under what the files say now: so they are looked at (stat) for
every decision. A change within the last second may not show in the times yet, and the files are read again until it
must.

Only what is not there at all is nothing. A link that leads nowhere, a FIFO, a device, a file that is too long: each is
an error in place of a content, and what reads it denies.
"""

import errno
import os
import stat
import time
from pathlib import Path
from typing import Final

_SETTLED_NS: Final = 1_000_000_000
_MOST_FILES: Final = 1000

Content = bytes | OSError
"""What a file holds, or why it could not be read."""


class Watched:
    """The files of a folder whose names end in a suffix, hidden ones left out; or one file."""

    def __init__(self, path: Path, suffix: str | None, most_bytes: int) -> None:
        """Watch a folder's files with this suffix; with None, the one file at the path. None is longer than this."""
        self._path = path
        self._name = str(path)
        self._suffix = suffix
        self._most_bytes = most_bytes
        self._seen: list[tuple[str, int, int, int, int]] | None = None
        self._contents: dict[str, Content] = {}

    def read(self) -> dict[str, Content]:
        """The contents by name, in the order of the names; nothing for what is not there.

        A folder that cannot be listed is one entry with its own name and the error. What is as it was is the same
        object.
        """
        try:
            found = self._stat()
        except OSError as error:
            self._seen = None
            self._contents = {self._path.name: error}
            return self._contents
        signature = [(name, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_size) for name, s in found.items()]
        if signature != self._seen:
            newest = max((max(s.st_mtime_ns, s.st_ctime_ns) for s in found.values()), default=0)
            self._contents = {name: self._content(name) for name in found}
            self._seen = signature if newest + _SETTLED_NS < time.time_ns() else None
        return self._contents

    def _stat(self) -> dict[str, os.stat_result]:
        if self._suffix is None:
            try:
                return {self._path.name: os.stat(self._name)}
            except FileNotFoundError:
                if os.path.lexists(self._name):
                    raise
                return {}
        try:
            os.lstat(self._name)
        except FileNotFoundError:
            return {}
        with os.scandir(self._name) as entries:
            names = sorted(e.name for e in entries if e.name.endswith(self._suffix) and not e.name.startswith("."))
        if len(names) > _MOST_FILES:
            raise OSError(errno.EFBIG, f"more than {_MOST_FILES} files")
        return {name: _stat(self._path / name) for name in names}

    def _content(self, name: str) -> Content:
        try:
            return _read(self._path if self._suffix is None else self._path / name, self._most_bytes)
        except OSError as error:
            return error


def _stat(path: Path) -> os.stat_result:
    """What a link leads to; a link that leads nowhere has times of its own, and reading it will say so."""
    try:
        return os.stat(path)
    except OSError:
        return os.lstat(path)


def _read(path: Path, most_bytes: int) -> bytes:
    """A regular file, or what a link to one leads to. Nothing that would block is waited for.

    Raises:
        OSError: it cannot be read, is not a regular file, or is too long.

    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"longer than {most_bytes} bytes")
    return data
