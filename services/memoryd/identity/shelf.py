"""The files of memory/ as they lie there, and what a hand changed in them since memoryd last looked.

What memory.md and user.md should hold is what the journal's last line of each says; a difference is the owner's edit,
is journalled as that, and is never overwritten. soul.md is neither journalled nor undone.

Source: M5a section 3; contract, "The files of M5a".
"""

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from memoryd import files
from memoryd.files import Unreadable
from memoryd.identity import entries as text_of
from memoryd.identity.block import over_limit
from memoryd.identity.entries import FILES, NOTES_KEY, NOTES_NAME, SOUL_LIMIT_CHARS, SOUL_NAME, FileKind
from memoryd.identity.intents import Intents
from memoryd.identity.journal import Breathe, Edit, EditJournal, is_later, texts
from memoryd.identity.notebook import Notebook, Unread
from memoryd.identity.notes import Note
from memoryd.identity.review import Review
from proto.faults import Fault
from proto.labels import PRIVATE, Label, join
from proto.role import durable
from proto.role.clock import Clock, stamp
from proto.role.log import logger

LIMIT_BYTES: Final = 1 << 16
"""What is larger cannot be within its limit of characters and is not read."""
PENDING_NAME: Final = "pending.jsonl"
HAND: Final = "edit"
"""The action of an edit made by hand."""


class Held(msgspec.Struct, frozen=True):
    """An identity file as it was last read: its bytes, its entries, and why it cannot be read, if so."""

    data: bytes
    entries: list[str]
    problem: str | None


_MOST_TOLD: Final = 100
_UNREAD: Final = Held(b"", [], "it was not read yet")


class Shelf:
    """The files and their journal, used by one thread at a time. `under_way` is the id of the last intent."""

    def __init__(self, memory: Path, state: Path, clock: Clock) -> None:
        self.memory = memory
        self.clock = clock
        self.journal = EditJournal(memory / "edits", state / "heads")
        self.review = Review(memory / PENDING_NAME)
        self.intents = Intents(state / "intent.json")
        self.notebook = Notebook(memory / NOTES_NAME, state / "notes.seen")
        self.notes_problem: str | None = None
        self.under_way = ""
        self._held: dict[str, Held] = {}
        self._told: Sequence[Unread] = ()

    def open(self, starter: bytes, breathe: Breathe = lambda: None) -> None:
        """Make what is missing and take up what is there. An intent that a crash left is settled by the writer.

        Raises:
            OSError: the folder cannot be used.

        """
        self._make_missing(starter)
        torn, broken = self.journal.open(self.clock(), breathe)
        torn_review = self.review.open()
        for cut in [*torn, *([torn_review] if torn_review else [])]:
            logger().warning("torn-line-cut", path=str(cut.path), bytes_cut=cut.bytes_cut)
        for state in broken:
            logger().error("chain-break", path=str(state.path), line=state.first_bad, runbook="journal-damaged")
        for bad in self.review.bad:
            logger().error("waiting-write-damaged", path=str(self.path(PENDING_NAME)), line=bad.number, why=bad.reason)
        self.intents.open()
        intent = self.intents.load()
        self.under_way = intent.line["id"] if intent else ""
        self.notebook.open(intent.notes if intent else None)
        self._settle_hand_change_of_notes()
        self._settle_review()

    def look(self) -> None:
        """Find what a hand changed, and journal it as the owner's.

        Raises:
            OSError: it cannot be journalled.

        """
        for kind in FILES.values():
            self._look_at(kind)
        self.look_at_notes()

    def look_at_notes(self) -> None:
        """The same of notes.md alone, which costs no more than a stat while nobody touches it. Raises as `look`."""
        try:
            differ = self.notebook.look()
        except Unreadable as error:
            self.notes_problem = str(error)
            return
        self.notes_problem = None
        if differ is not None:
            if any(differ):
                self.owner_edit(None, *_texts(differ), _label(differ))
            self.notebook.keep_seen()
        if self.notebook.unread != self._told:
            self._told = self.notebook.unread
            for note in self._told[:_MOST_TOLD]:
                logger().warning("note-without-header", number=note.number, file=NOTES_NAME)
            if self._told:
                logger().warning("notes-without-header", count=len(self._told), file=NOTES_NAME)

    def path(self, name: str) -> Path:
        """The path of a file of memory/."""
        return self.memory / name

    def held(self, kind: FileKind) -> Held:
        """A file as the last look found it, readable or not."""
        return self._held.get(kind.key, _UNREAD)

    def readable(self, kind: FileKind) -> Held:
        """A file as the last look found it.

        Raises:
            Fault: `memory-unavailable`, with the file and the reason.

        """
        held = self.held(kind)
        if held.problem:
            raise unavailable(kind.name, held.problem)
        return held

    def servable(self, kind: FileKind) -> Held:
        """A file that the block may show: readable and within its limit. Raises as `readable`."""
        held = self.readable(kind)
        if problem := over_limit(text_of.size(held.entries), kind.limit_chars):
            raise unavailable(kind.name, problem)
        return held

    def soul(self) -> tuple[str, str | None]:
        """The text of soul.md, trimmed, and why it cannot be served, if so."""
        try:
            text = text_of.trim(text_of.decode(files.read(self.path(SOUL_NAME), LIMIT_BYTES)))
        except Unreadable as error:
            return "", str(error)
        return text, over_limit(len(text), SOUL_LIMIT_CHARS)

    def new_id(self) -> str:
        """An id that no edit, no waiting write and no intent has had."""
        return self.journal.new_id(self.clock(), self.review.last_id, self.under_way)

    def owner_edit(self, kind: FileKind | None, before: list[str], after: list[str], label: Label) -> None:
        """Journal what a hand did to an identity file, or to notes.md (None)."""
        edit = Edit(
            id=self.new_id(),
            time=stamp(self.clock()),
            session=None,
            call=None,
            action=HAND,
            file=NOTES_KEY if kind is None else kind.key,
            went_to=NOTES_NAME if kind is None else kind.name,
            before=[*before],
            after=[*after],
            class_=label.class_,
            untrusted=label.untrusted,
            by="owner",
        )
        self.journal.append(msgspec.to_builtins(edit))
        logger().info("hand-edit", id=edit.id, file=edit.went_to)

    def _look_at(self, kind: FileKind) -> None:
        try:
            data = files.read(self.path(kind.name), LIMIT_BYTES)
            entries = text_of.parse(text_of.decode(data))
        except Unreadable as error:
            self._held[kind.key] = Held(b"", [], str(error))
            return
        latest = self.journal.latest(kind.name)
        known = texts(latest.after) if latest else []
        if known is not None and entries != known:
            self.owner_edit(kind, known, entries, PRIVATE)
        self._held[kind.key] = Held(data, entries, None)

    def _make_missing(self, starter: bytes) -> None:
        if self.memory.is_symlink():
            raise NotADirectoryError(errno.ENOTDIR, "a symbolic link is not followed", str(self.memory))
        durable.make_folder(self.memory)
        durable.make_folder(self.memory / "edits")
        for name, data in ((SOUL_NAME, starter), *((kind.name, b"") for kind in FILES.values()), (NOTES_NAME, b"")):
            files.create(self.path(name), data)
            files.tighten(self.path(name))

    def _settle_hand_change_of_notes(self) -> None:
        differ = self.notebook.left_next()
        if differ is not None:
            latest = self.journal.latest(NOTES_NAME)
            said = latest is not None and latest.action == HAND and (latest.before, latest.after) == _texts(differ)
            self.notebook.settle_next(journalled=said or not any(differ))

    def _settle_review(self) -> None:
        """A crash may have come between a write's journal line and the line that says that it waits no more."""
        for pending in self.review.waiting():
            edit = self.journal.find_call(pending.session, pending.call)
            if edit and is_later(edit.id, pending.id):
                self.review.resolve(pending.id, "rejected" if edit.went_to is None else "accepted", edit.id)


def unavailable(name: str, problem: str) -> Fault:
    """The fault of a file that cannot be used."""
    return Fault("memory-unavailable", f"{name} cannot be used: {problem}")


def _texts(differ: tuple[list[Note], list[Note]]) -> tuple[list[str], list[str]]:
    before, after = differ
    return [note.text for note in before], [note.text for note in after]


def _label(differ: tuple[list[Note], list[Note]]) -> Label:
    """The strictest label among notes that a hand changed."""
    label = PRIVATE
    for note in (*differ[0], *differ[1]):
        if note.header is not None:
            label = join(label, note.header.label)
    return label
