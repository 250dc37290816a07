"""The intent of the one change that is under way: on disk before anything of it is done, gone when all of it is.

Writes are in one line, so there is at most one. A crash leaves it behind, and the next start settles it by hashes.
"""

import os
from pathlib import Path
from typing import Any

import msgspec

from memoryd.identity.journal import edit_of
from proto.canon import digest
from proto.role import durable
from proto.role.log import logger


class FileChange(msgspec.Struct, frozen=True):
    """An identity file: SHA-256 of its bytes before and after, and the temporary file that is to take its place."""

    name: str
    before: str
    after: str
    temporary: str


class NotesChange(msgspec.Struct, frozen=True):
    """notes.md: its size and hash before, the text to append, and its hash after."""

    size_before: int
    before: str
    appended: str
    after: str


class Intent(msgspec.Struct, frozen=True):
    """A change: its journal line (session, call and label in it), the files that it touches, the write it accepts."""

    line: dict[str, Any]
    file: FileChange | None
    notes: NotesChange | None
    pending: str | None


class Intents:
    """The file that holds the intent, behind its own hash: half of one is none, and nothing was done for it yet.

    What stands there whole and is no intent, no crash has left; it is kept beside the file for whoever did.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decoder = msgspec.json.Decoder(Intent)

    def open(self) -> None:
        """Make the file if it is missing, so that no later write has to fsync the folder."""
        if not self._path.exists():
            durable.replace(self._path, b"")

    def put(self, intent: Intent) -> None:
        """Put it on disk."""
        data = msgspec.json.encode(intent)
        self._write(f"{digest(data)} ".encode() + data)

    def load(self) -> Intent | None:
        """What is there, or None."""
        told, _, data = self._path.read_bytes().partition(b" ")
        if told != digest(data).encode():
            self.clear()
            return None
        try:
            intent = self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            intent = None
        if intent is None or edit_of(intent.line) is None:
            kept = self._path.with_name(f"{self._path.name}.unread")
            logger().error("intent-set-aside", path=str(kept))
            durable.replace(kept, self._path.read_bytes())
            self.clear()
            return None
        return intent

    def clear(self) -> None:
        """Forget it: all of it is done. If a power failure brings it back, the journal tells."""
        os.truncate(self._path, 0)

    def _write(self, data: bytes) -> None:
        handle = os.open(self._path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            durable.write_whole(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
