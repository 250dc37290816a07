"""Making a change so that a crash at any instant leaves either no edit, or a listed one by its true author.

The steps: a temporary file with the new text; the intent; notes.md; the file swapped in; the journal line. What comes
out of the swap is looked at: if an editor had saved meanwhile, its version is put back, journalled as the owner's, and
the edit is made again on it. After a crash the intent is settled by hashes, the temporary file telling whether the swap
was done.

Source: contract, "The files of M5a", "Applying".
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from memoryd import files
from memoryd.files import Unreadable, sha256
from memoryd.identity import entries as text_of
from memoryd.identity.entries import BY_NAME, NOTES_KEY, NOTES_NAME, FileKind
from memoryd.identity.intents import FileChange, Intent, NotesChange
from memoryd.identity.journal import By, Edit, texts
from memoryd.identity.notes import Note
from memoryd.identity.shelf import LIMIT_BYTES, Shelf, unavailable
from proto.faults import Fault
from proto.labels import PRIVATE, Label
from proto.role import durable
from proto.role.clock import stamp
from proto.role.log import logger

_MOST_ATTEMPTS: Final = 8


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A change to make. `kind` is the file that it is of, None for notes.md; `after` its entries then, None when only
    notes.md changes. `notes` are appended to notes.md.
    """

    kind: FileKind | None
    after: list[str] | None
    notes: Sequence[Note]
    action: str
    session: str | None
    call: str | None
    label: Label
    by: By
    pending: str | None = None


class Abandoned(Exception):
    """Nobody waits for the answer any more, and nothing was done."""


StillWanted = Callable[[], bool]


class Writer:
    """Changes the files of a shelf. Used by one thread at a time."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._unsettled = False

    def write(self, make: Callable[[], Draft], still_wanted: StillWanted) -> Edit:
        """Make a change, and give its edit. `make` is asked again when an editor got in between.

        Raises:
            Refusal: of `make`.
            Abandoned: nobody wanted it any more when its intent was to be written.
            Fault: `memory-unavailable`.

        """
        for _ in range(_MOST_ATTEMPTS):
            self.look()
            if edit := self._attempt(make(), still_wanted):
                return edit
        raise Fault("memory-unavailable", "another program changes the file again and again")

    def look(self) -> None:
        """Settle what an error left, and find what a hand changed.

        Raises:
            Fault: `memory-unavailable`.

        """
        self._tidied(self._shelf.look)

    def look_at_notes(self) -> None:
        """The same for notes.md alone. Raises as `look`."""
        self._tidied(self._shelf.look_at_notes)

    def tidy(self) -> None:
        """Settle what an error left, so that the journal tells all that was done. Raises as `look`."""
        self._tidied(lambda: None)

    def settle(self) -> None:
        """Finish or take back the change that a crash or an error left under way."""
        intent = self._shelf.intents.load()
        if intent is not None:
            journalled = self._shelf.journal.find(intent.line["id"]) is not None
            if journalled or self._is_done(intent):
                self._finish(intent, journalled=journalled)
            else:
                self._take_back(intent)
            logger().warning("intent-settled", id=intent.line["id"])
        self._unsettled = False

    def _tidied(self, look: Callable[[], None]) -> None:
        try:
            if self._unsettled:
                self.settle()
            look()
        except (OSError, Unreadable) as error:
            raise Fault("memory-unavailable", f"the disk refuses: {error}") from None

    def _attempt(self, draft: Draft, still_wanted: StillWanted) -> Edit | None:
        """The edit, or None when an editor got in between and all of it was taken back."""
        edit = self._edit_of(draft)
        notes = self._prepare_notes(draft)
        temporary, change = self._prepare_file(draft)
        if not still_wanted():
            if temporary:
                temporary.unlink()
            raise Abandoned
        intent = Intent(msgspec.to_builtins(edit), change, notes, draft.pending)
        self._shelf.under_way = edit.id
        try:
            self._shelf.intents.put(intent)
            if not self._change_files(intent, temporary):
                self._take_back(intent)
                return None
            self._finish(intent, journalled=False)
        except (OSError, Unreadable) as error:
            return self._after_error(edit, temporary, error)
        return edit

    def _edit_of(self, draft: Draft) -> Edit:
        shelf, kind = self._shelf, draft.kind
        to_file = None if draft.after is None else kind
        before = shelf.readable(to_file).entries if to_file else []
        after = [note.text for note in draft.notes] if draft.after is None else draft.after
        return Edit(
            id=shelf.new_id(),
            time=stamp(shelf.clock()),
            session=draft.session,
            call=draft.call,
            action=draft.action,
            file=NOTES_KEY if kind is None else kind.key,
            went_to=to_file.name if to_file else NOTES_NAME,
            before=list(before),
            after=list(after),
            class_=draft.label.class_,
            untrusted=draft.label.untrusted,
            by=draft.by,
        )

    def _prepare_file(self, draft: Draft) -> tuple[Path | None, FileChange | None]:
        """The temporary file with the new bytes, and the change for the intent."""
        if draft.kind is None or draft.after is None:
            return None, None
        before = self._shelf.readable(draft.kind).data
        after = text_of.render(draft.after).encode()
        temporary = durable.write_temporary(self._shelf.path(draft.kind.name), after)
        return temporary, FileChange(draft.kind.name, sha256(before), sha256(after), temporary.name)

    def _prepare_notes(self, draft: Draft) -> NotesChange | None:
        if not draft.notes:
            return None
        if self._shelf.notes_problem:
            raise unavailable(NOTES_NAME, self._shelf.notes_problem)
        return self._shelf.notebook.plan(draft.notes)

    def _change_files(self, intent: Intent, temporary: Path | None) -> bool:
        """Change notes.md and the file; whether both were as they were when the change was made up."""
        if intent.notes and not self._shelf.notebook.append(intent.notes):
            return False
        if intent.file is None or temporary is None:
            return True
        path = self._shelf.path(intent.file.name)
        files.require_quiet(path)
        files.exchange(temporary, path)
        if _hash(temporary) != intent.file.before or not files.is_quiet(temporary):
            files.exchange(temporary, path)
            return False
        durable.sync_folder(path.parent)
        return True

    def _finish(self, intent: Intent, *, journalled: bool) -> None:
        """Journal a change that is made, and forget the intent."""
        shelf = self._shelf
        if not journalled:
            shelf.journal.append(intent.line)
        if intent.notes:
            shelf.notebook.remember(intent.notes)
        if intent.pending:
            shelf.review.resolve(intent.pending, "accepted", intent.line["id"])
        shelf.intents.clear()
        if intent.file:
            shelf.path(intent.file.temporary).unlink(missing_ok=True)

    def _take_back(self, intent: Intent) -> None:
        if intent.notes:
            self._shelf.notebook.take_back(intent.notes)
        if intent.file:
            self._drop(intent.file)
        self._shelf.intents.clear()

    def _drop(self, change: FileChange) -> None:
        """Remove the temporary file of a change that is not made.

        If it is not what we wrote, an editor saved over the new text in the moment before it was taken out again, and
        that version is the owner's latest.
        """
        temporary, path = self._shelf.path(change.temporary), self._shelf.path(change.name)
        if not os.path.lexists(temporary):
            return
        if _hash(temporary) != change.after:
            self._shelf.look()
            files.exchange(temporary, path)
            durable.sync_folder(path.parent)
        temporary.unlink()

    def _is_done(self, intent: Intent) -> bool:
        """Whether the files hold the change of an intent that a crash left, by their hashes."""
        if intent.file is None:
            return intent.notes is not None and self._shelf.notebook.holds(intent.notes)
        change = intent.file
        temporary, path = self._shelf.path(change.temporary), self._shelf.path(change.name)
        if not os.path.lexists(temporary):
            return self._is_contained(intent, path)
        left = _hash(temporary)
        if left == change.before:
            return True
        if left != change.after:
            # What came out was an editor's version, and it was not put back any more.
            if _hash(path) == change.after:
                files.exchange(temporary, path)
                durable.sync_folder(path.parent)
            else:
                self._journal_lost_version(change, temporary)
        return False

    def _is_contained(self, intent: Intent, path: Path) -> bool:
        """The same without the temporary file: by hash, else whether the agent's part is in what a hand made of it."""
        assert intent.file is not None  # noqa: S101  (the caller's case)
        now = files.read(path, LIMIT_BYTES)
        if sha256(now) in {intent.file.after, intent.file.before}:
            return sha256(now) == intent.file.after
        entries = text_of.parse(text_of.decode(now))
        before, after = intent.line["before"], intent.line["after"]
        added = [entry for entry in after if entry not in before]
        removed = [entry for entry in before if entry not in after]
        return all(entry in entries for entry in added) and not any(entry in entries for entry in removed)

    def _journal_lost_version(self, change: FileChange, temporary: Path) -> None:
        """The owner saved twice around a crash: the first version is listed, the second one is in the file."""
        kind = BY_NAME[change.name]
        latest = self._shelf.journal.latest(kind.name)
        try:
            version = text_of.parse(text_of.decode(files.read(temporary, LIMIT_BYTES)))
        except Unreadable as error:
            kept = temporary.with_name(f"{change.name}.unread")
            logger().error("version-set-aside", path=str(kept), error=str(error))
            temporary.rename(kept)
            return
        self._shelf.owner_edit(kind, (texts(latest.after) or []) if latest else [], version, PRIVATE)
        temporary.unlink()

    def _after_error(self, edit: Edit, temporary: Path | None, error: Exception) -> Edit:
        """A disk that refused: settle at once, or else before anything else is done."""
        self._unsettled = True
        logger().error("write-failed", id=edit.id, error=str(error))
        try:
            if temporary and self._shelf.intents.load() is None:
                temporary.unlink()
            self.settle()
        except (OSError, Unreadable) as another:
            logger().error("settle-failed", id=edit.id, error=str(another))
        if self._shelf.journal.find(edit.id):
            return edit
        raise Fault("memory-unavailable", f"the change of {edit.went_to} could not be written: {error}")


def _hash(path: Path) -> str | None:
    try:
        return sha256(files.read(path, LIMIT_BYTES))
    except Unreadable:
        return None
