"""notes.md and what memoryd last knew of it: appending, finding what a hand changed, taking an append back.

What it knew is a copy in `state/memoryd/notes.seen`, so that a change made by hand while memoryd was away can be told
from its own. The copy follows notes.md once an append is journalled; an append that is under way is in its intent.
"""

import hashlib
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from memoryd import files
from memoryd.files import Unreadable
from memoryd.identity import notes
from memoryd.identity.entries import decode
from memoryd.identity.intents import NotesChange
from memoryd.identity.notes import Note
from proto.role import durable
from proto.role.log import logger

LIMIT_BYTES: Final = 1 << 28
"""What is larger is not read. M5a sets no limit; this one keeps the machine alive."""
# A file whose times are younger may have changed again within the same tick of the clock.
_SETTLED_NS: Final = 1_000_000_000

Signature = tuple[int, int, int, int]


class Unread(NamedTuple):
    """A note without a header that can be read: its number from 1 among all notes, and its text."""

    number: int
    text: str


class Notebook:
    """notes.md. `entries` is what is known of it; `version` grows whenever that changes. `unread` are the notes that
    have no label, because a hand wrote no header that can be read, and that recall therefore cannot show.
    """

    def __init__(self, path: Path, seen: Path) -> None:
        self._path = path
        self._seen = seen
        self._next = seen.with_name(f"{seen.name}.next")
        self._signature: Signature | None = None
        self.entries: Sequence[Note] = ()
        self.unread: Sequence[Unread] = ()
        self.version = 0
        self._know(b"")

    def open(self, under_way: NotesChange | None) -> None:
        """Take up what was known before an append that a crash may have left under way.

        Raises:
            OSError: the copy cannot be read.

        """
        if not os.path.lexists(self._seen):
            durable.replace(self._seen, b"")
        data = self._seen.read_bytes()
        try:
            self._know(data if under_way is None else data[: under_way.size_before])
        except Unreadable as error:
            # What was known is lost; all of notes.md is the owner's word now.
            logger().error("copy-of-notes-lost", path=str(self._seen), error=str(error))
            durable.replace(self._seen, b"")

    def may_differ(self) -> bool:
        """Whether a look could find something: notes.md was touched since the last one, or too lately to tell."""
        try:
            return self._signature is None or self._signature_now() != self._signature
        except Unreadable:
            return True

    def look(self) -> tuple[list[Note], list[Note]] | None:
        """What a hand changed since: the notes before and after, only those that differ; None if there is nothing.

        The change is known from now on. It is journalled by the caller, and then `keep_seen` makes it last.

        Raises:
            Unreadable: notes.md cannot be read.

        """
        signature = self._signature_now()
        if signature is not None and signature == self._signature:
            return None
        data = files.read(self._path, LIMIT_BYTES)
        differ = None
        if files.sha256(data) != self._hash.hexdigest():
            before = self.entries
            self._know(data)
            differ = notes.changed(before, self.entries)
            durable.replace(self._next, data)
        self._signature = signature
        return differ

    def keep_seen(self) -> None:
        """Make what `look` found last: it is journalled."""
        os.rename(self._next, self._seen)
        durable.sync_folder(self._seen.parent)

    def left_next(self) -> tuple[list[Note], list[Note]] | None:
        """What a hand had changed when a crash came between the journal line and `keep_seen`, or before both."""
        if not os.path.lexists(self._next):
            return None
        try:
            return notes.changed(self.entries, notes.parse(decode(self._next.read_bytes())))
        except Unreadable:
            self._next.unlink()  # not written by us; the next look finds what is in notes.md
            return None

    def settle_next(self, *, journalled: bool) -> None:
        """Know what `left_next` gave, if it was journalled; else forget it, and the next look finds it again."""
        if journalled:
            self._know(self._next.read_bytes())
            self.keep_seen()
        else:
            self._next.unlink()

    def plan(self, new: Sequence[Note]) -> NotesChange:
        """The change that appends these notes to what is known."""
        text = notes.render(new)
        appended = text if self._ends_in_a_line else f"\n{text}"
        after = self._hash.copy()
        after.update(appended.encode())
        return NotesChange(
            size_before=self._size, before=self._hash.hexdigest(), appended=appended, after=after.hexdigest()
        )

    def append(self, change: NotesChange) -> bool:
        """Append, on disk when it returns; whether the file was not replaced meanwhile.

        Raises:
            OSError: the disk refuses.
            Unreadable: another program has it open for writing.

        """
        files.require_quiet(self._path)
        return files.append(self._path, change.appended.encode())

    def remember(self, change: NotesChange) -> None:
        """Know of an append that is journalled, and make that last. Safe to repeat after a new start."""
        data = change.appended.encode()
        if self._hash.hexdigest() == change.before:
            self._add(data)
        handle = os.open(self._seen, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(handle, change.size_before)
            os.lseek(handle, 0, os.SEEK_END)
            durable.write_whole(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)

    def holds(self, change: NotesChange) -> bool:
        """Whether all of an append is in notes.md, though a hand may have changed the rest.

        Raises:
            Unreadable: notes.md cannot be read.

        """
        data = files.read(self._path, LIMIT_BYTES)
        if files.sha256(data[: change.size_before]) == change.before:
            return data[change.size_before :].startswith(change.appended.encode())
        appended = Counter(notes.parse(change.appended))
        return appended <= Counter(notes.parse(decode(data))) - Counter(self.entries)

    def take_back(self, change: NotesChange) -> None:
        """Remove an append, or the beginning of one, that was not journalled.

        Raises:
            Unreadable: notes.md cannot be read.

        """
        data = files.read(self._path, LIMIT_BYTES)
        appended = change.appended.encode()
        if files.sha256(data[: change.size_before]) == change.before and appended.startswith(
            data[change.size_before :]
        ):
            files.truncate(self._path, change.size_before)
        elif appended in data:
            # A hand changed the file meanwhile: its part stays.
            durable.replace(self._path, data.replace(appended, b"", 1))
        self._signature = None

    def _know(self, data: bytes) -> None:
        self.entries = tuple(notes.parse(decode(data)))
        self.unread = [Unread(number, note.text) for number, note in enumerate(self.entries, 1) if note.header is None]
        self._hash = hashlib.sha256(data)
        self._size = len(data)
        self._ends_in_a_line = not data or data.endswith(b"\n")
        self._signature = None
        self.version += 1

    def _add(self, data: bytes) -> None:
        self.entries = (*self.entries, *notes.parse(data.decode()))
        self._hash.update(data)
        self._size += len(data)
        self._ends_in_a_line = True
        self._signature = None
        self.version += 1

    def _signature_now(self) -> Signature | None:
        """What tells this state of the file from others; None while it is too young to tell."""
        try:
            found = os.stat(self._path, follow_symlinks=False)
        except OSError as error:
            raise Unreadable(error.strerror or str(error)) from None
        young = time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < _SETTLED_NS
        return None if young else (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
