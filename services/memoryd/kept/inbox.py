"""Items that are being handed over, in pieces: `record/.unfinished/<handle>.<part>`, none of which is an item yet.

It lies in `record/`, so that a finished body is renamed to its place: a folder elsewhere may be another file system, or
another mount of the same one. A start empties it. Used by one thread at a time.
"""

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from memoryd.kept.item import names_a_body
from proto.faults import Fault
from proto.messages.memory import KeepBegin, KeptPart
from proto.role import durable

FOLDER: Final = ".unfinished"
MOST_UNFINISHED: Final = 8
MOST_ITEM_BYTES: Final = 256 << 20
MOST_PARTS: Final = 4
UNFINISHED_S: Final = 60.0


class _Body:
    """A part so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = 0
        self.sha256: Any = hashlib.sha256()

    def append(self, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(self.path, flags, 0o600)
        try:
            durable.write_whole(handle, data)
        finally:
            os.close(handle)
        self.size_bytes += len(data)
        self.sha256.update(data)

    def sync(self) -> None:
        handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class Unfinished:
    """An item that is being handed over."""

    def __init__(self, begun: KeepBegin, touched_s: float) -> None:
        self.begun = begun
        self.touched_s = touched_s
        self.bodies: dict[str, _Body] = {}

    @property
    def size_bytes(self) -> int:
        """What has come so far."""
        return sum(body.size_bytes for body in self.bodies.values())

    @property
    def paths(self) -> dict[str, Path]:
        """The file of each part."""
        return {name: body.path for name, body in self.bodies.items()}

    def drop(self) -> None:
        """Remove what has come."""
        for body in self.bodies.values():
            body.path.unlink(missing_ok=True)


class Inbox:
    """The items under way, by handle."""

    def __init__(self, record: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._folder = record / FOLDER
        self._monotonic = monotonic
        self._items: dict[str, Unfinished] = {}

    def open(self) -> int:
        """Make the folder, and remove what a crash left in it; how many files that were.

        Raises:
            OSError: the folder cannot be used.

        """
        durable.make_folder(self._folder)
        left = [path for path in self._folder.iterdir() if path.is_symlink() or path.is_file()]
        for path in left:
            path.unlink()
        return len(left)

    def begin(self, begun: KeepBegin) -> str:
        """Begin an item; its handle.

        Raises:
            Fault: `busy`: too many are under way; `memory-unavailable`: the disk is nearly full.

        """
        self.drop_stale()
        # A session can make very much of it, and must not take the room that edits and decisions need.
        if durable.is_nearly_full(self._folder):
            raise Fault("memory-unavailable", "the disk is nearly full; nothing more is kept until it has room")
        if len(self._items) >= MOST_UNFINISHED:
            raise Fault("busy", "too many items are being handed over; try again")
        handle = secrets.token_hex(8)
        self._items[handle] = Unfinished(begun, self._monotonic())
        return handle

    def piece(self, handle: str, part: str, offset: int, data: bytes) -> None:
        """Append the next bytes of a part.

        Raises:
            Fault: `kept-refused`; what came before stays as it is.
            OSError: the disk refuses; the item is dropped.

        """
        item = self._found(handle)
        body = item.bodies.get(part)
        there = body.size_bytes if body else 0
        if offset != there:
            raise Fault("kept-refused", f"the piece begins at {offset:,}, and {there:,} bytes of {part} are there")
        if item.size_bytes + len(data) > MOST_ITEM_BYTES:
            raise Fault("kept-refused", f"an item has at most {MOST_ITEM_BYTES:,} bytes")
        if body is None:
            body = self._new_body(item, handle, part)
        item.touched_s = self._monotonic()
        try:
            body.append(data)
        except OSError:
            self.drop(handle)
            raise

    def take(self, handle: str, parts: Sequence[KeptPart]) -> Unfinished:
        """An item that is whole, its bodies on disk; it is under way no longer.

        Raises:
            Fault: `kept-refused`: its parts are not what is said of them; the item is dropped.
            OSError: the disk refuses; the item is dropped.

        """
        item = self._found(handle)
        try:
            for part in parts:
                if part.name not in item.bodies:
                    self._new_body(item, handle, part.name).append(b"")
            told = [(part.name, part.size_bytes, part.sha256) for part in parts]
            if sorted(told) != sorted(
                (name, body.size_bytes, body.sha256.hexdigest()) for name, body in item.bodies.items()
            ):
                raise Fault("kept-refused", "the parts are not what was said of them, by name, size or digest")
            for body in item.bodies.values():
                body.sync()
        except (Fault, OSError):
            self.drop(handle)
            raise
        del self._items[handle]
        return item

    def drop(self, handle: str) -> Unfinished:
        """Drop an item that is under way."""
        item = self._items.pop(handle)
        item.drop()
        return item

    def drop_stale(self) -> list[KeepBegin]:
        """Drop what nobody went on with; what it was."""
        now_s = self._monotonic()
        stale = [handle for handle, item in self._items.items() if now_s - item.touched_s > UNFINISHED_S]
        return [self.drop(handle).begun for handle in stale]

    def _found(self, handle: str) -> Unfinished:
        item = self._items.get(handle)
        if item is None:
            raise Fault("kept-refused", "nothing is being handed over under this handle; begin again")
        return item

    def _new_body(self, item: Unfinished, handle: str, part: str) -> _Body:
        if not names_a_body(part) or len(item.bodies) >= MOST_PARTS:
            raise Fault("kept-refused", f"an item has at most {MOST_PARTS} parts, and none is named json")
        item.bodies[part] = _Body(self._folder / f"{handle}.{part}")
        return item.bodies[part]
