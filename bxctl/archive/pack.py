"""Writing a backup: under another name first, on disk and looked through before it gets its own."""

import fcntl
import glob
import hashlib
import os
import secrets
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from bxctl.archive.manifest import FOLDER, NAME, FileRow, Manifest
from proto.faults import Fault
from proto.home import FORMAT
from proto.messages.wire import ChainedJournal
from proto.role import durable

_LEVEL: Final = 3
"""Of deflate: nearly all of what the highest one saves, in a quarter of its time."""


class Writer:
    """A backup that is being written; it is there, whole, once `finish` has returned, and otherwise nothing is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
        self._zip: zipfile.ZipFile | None = None
        self._paths: set[str] = set()
        self.files: list[FileRow] = []
        self.journals: list[ChainedJournal] = []

    def __enter__(self) -> Self:
        with _told(self._path):
            _sweep(self._path)
            handle = os.open(self._temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX)
            self._file = open(handle, "w+b")
            self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Of a file that failed nothing more is wanted: on a full disk its closing fails too. A good one is on disk.
        for opened in (self._zip, self._file):
            with suppress(OSError, ValueError):
                if opened is not None:
                    opened.close()
        self._temporary.unlink(missing_ok=True)

    def add(self, path: str, size_bytes: int, mtime_ns: int, pieces: Iterable[bytes]) -> None:
        """Add a file of the home; `pieces` are as many bytes as it says, or `reply-unexpected`.

        Raises:
            Fault: `backup-failed`, `reply-unexpected`, and what `pieces` raises.

        """
        if path in self._paths:
            raise Fault("reply-unexpected", f"{path} comes twice")
        self._paths.add(path)
        digest, count = hashlib.sha256(), 0
        with _told(self._path), self._member(FOLDER + path, size_bytes) as member:
            for piece in pieces:
                member.write(piece)
                digest.update(piece)
                count += len(piece)
        if count != size_bytes:
            raise Fault("reply-unexpected", f"{path} has {count} bytes, and should have {size_bytes}")
        self.files.append(FileRow(path=path, size_bytes=count, sha256=digest.hexdigest(), mtime_ns=mtime_ns))

    def finish(self, made: str, *, credentials: bool, check: Callable[[Path], None]) -> Manifest:
        """Write what the backup says of itself, have `check` look through it, and give it its name.

        Raises:
            Fault: `backup-failed`, and what `check` raises.

        """
        manifest = Manifest(format=FORMAT, made=made, credentials=credentials, files=self.files, journals=self.journals)
        said = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        with _told(self._path):
            with self._member(NAME, len(said)) as member:
                member.write(said)
            self._opened.close()
            self._file.flush()
            os.fsync(self._file.fileno())
        check(self._temporary)
        with _told(self._path):
            os.rename(self._temporary, self._path)
            durable.sync_folder(self._path.parent)
        return manifest

    @property
    def _opened(self) -> zipfile.ZipFile:
        assert self._zip is not None  # noqa: S101  (used inside the block)
        return self._zip

    def _member(self, name: str, size_bytes: int) -> Any:
        info = zipfile.ZipInfo(name)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o100600 << 16
        info.file_size = size_bytes
        return self._opened.open(info, "w")


def _sweep(path: Path) -> None:
    """Remove what a backup to this path left that was killed: whoever still writes one holds its lock."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 12}.tmp"):
        # Somebody else may have put a link or a pipe of that name into a folder like /tmp.
        with suppress(OSError), open(os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink(missing_ok=True)


class _told:  # noqa: N801  (read as a word: `with _told(path)`)
    """What the disk refuses becomes `backup-failed`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, OSError):
            raise Fault("backup-failed", f"{self._path}: {error.strerror or error}") from None
