"""What a backup says of itself, and which paths may stand in one. Pure."""

from typing import Final, Literal

import msgspec

from proto.home import NOT_BACKED_UP, PATHS
from proto.messages.wire import ChainedJournal

NAME: Final = "manifest.json"
FOLDER: Final = "home/"
"""Where the files of the home are in the archive."""
_LONGEST_PATH_BYTES: Final = 1000
_LONGEST_NAME_BYTES: Final = 255


class FileRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file: its path under the home, its size, the SHA-256 of its bytes, when it was changed last."""

    path: str
    size_bytes: int
    sha256: str
    mtime_ns: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A backup: the form of the file, the format of the home, when it was made, whether it has keys, what it holds."""

    boxmaker_backup: Literal[1] = 1
    format: int
    made: str
    credentials: bool
    files: list[FileRow]
    journals: list[ChainedJournal]

    @property
    def size_bytes(self) -> int:
        """The bytes of all files."""
        return sum(row.size_bytes for row in self.files)


def writer_of(path: str) -> str | None:
    """Who alone writes a path under the home; None when it is none that is backed up."""
    for row in PATHS:
        within = path == row.path or (row.path.endswith("/") and path.startswith(row.path))
        if within and row.path not in NOT_BACKED_UP:
            return row.writer
    return None


def is_path(untrusted_path: str) -> bool:
    """Whether a text is the plain path of a file that a home may hold: relative, no step up, no odd byte."""
    data = untrusted_path.encode(errors="replace")
    names = untrusted_path.split("/")
    return (
        writer_of(untrusted_path) is not None
        and len(data) <= _LONGEST_PATH_BYTES
        and untrusted_path.isprintable()
        and "\\" not in untrusted_path
        and all(
            name not in ("", ".", "..") and len(name.encode(errors="replace")) <= _LONGEST_NAME_BYTES for name in names
        )
    )


def problem_of(manifest: Manifest) -> str | None:
    """What in a manifest no box has written; None when nothing is."""
    folders: set[str] = set()
    paths: set[str] = set()
    for row in manifest.files:
        if not is_path(row.path):
            return f"it holds a path that is none of a home: {row.path}"
        if row.path in paths:
            return f"it holds {row.path} twice"
        if row.size_bytes < 0 or abs(row.mtime_ns) >= 1 << 63:
            return f"it says of {row.path} what cannot be"
        paths.add(row.path)
        parts = row.path.split("/")
        folders.update("/".join(parts[:count]) for count in range(1, len(parts)))
    if both := sorted(paths & folders):
        return f"{both[0]} is a file and a folder in it"
    known = {*paths, *(f"{folder}/" for folder in folders)}
    for journal in manifest.journals:
        if not {journal.path, journal.heads} <= {*known, ""} and not is_path(journal.heads):
            return f"it names a journal that is none of a home: {journal.path}"
    return None
