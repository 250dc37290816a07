"""The intent of the one change that is under way: on disk before anything of it is done, gone when all of it is.

Writes are in one line, so there is at most one. A crash leaves it behind, and the next start settles it by hashes.
"""

from pathlib import Path
from typing import Any

import msgspec

from proto.role import durable


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
    """The file that holds the intent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decoder = msgspec.json.Decoder(Intent)

    def put(self, intent: Intent) -> None:
        """Put it on disk."""
        durable.replace(self._path, msgspec.json.encode(intent))

    def load(self) -> Intent | None:
        """What is there, or None.

        Raises:
            msgspec.DecodeError: it is no intent; nothing of ours ever leaves half of one.

        """
        try:
            return self._decoder.decode(self._path.read_bytes())
        except FileNotFoundError:
            return None

    def clear(self) -> None:
        """Forget it: all of it is done. If a crash brings it back, the journal tells."""
        self._path.unlink(missing_ok=True)
