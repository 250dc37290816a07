"""A write of a session: where it goes, what may be in it, and what the session is told (M5a section 5, "memory").

A write is made once. What a call has done is in the journal or among the waiting writes, and a repeated call is told
that again, however long ago it was (contract, "Wire").
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from memoryd.holdings import Holdings
from memoryd.identity.edit import IdentityEdit, check_form, outcome, written
from memoryd.identity.entries import BY_NAME, FILES, FileKind, of, size, trim
from memoryd.identity.journal import Edit, texts
from memoryd.identity.notes import Header, Note, minute
from memoryd.identity.review import Pending, Staged, action_of
from memoryd.identity.writer import Abandoned, Draft, StillWanted
from memoryd.refusal import Refusal
from proto.labels import PRIVATE, Label
from proto.role.clock import stamp
from proto.tools import Add, MemoryArguments
from proto.tools import Note as NoteArguments


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A decided call of `memory`: `label` is the session's when it was decided, `raw` its arguments as they came."""

    session: str
    call: str
    label: Label
    arguments: MemoryArguments
    raw: dict[str, Any]


def write(holdings: Holdings, call: Call, still_wanted: StillWanted) -> str:
    """Make a write, and give the sentence that the session is told.

    Raises:
        Refusal: with the sentence instead.
        Abandoned: nobody waits for the answer.
        Fault: `memory-unavailable`.

    """
    holdings.writer.tidy()
    if (told := answered(holdings, call.session, call.call)) is not None:
        return told
    edit = call.arguments
    if isinstance(edit, NoteArguments):
        return _note(holdings, call, None, edit.text, still_wanted)
    kind = FILES[edit.file]
    if (seen := _seen(call.label)) is None:
        _check(holdings, call, edit)
        if holdings.review:
            return _stage(holdings, call, edit, still_wanted)
        return answer_of(holdings.writer.write(lambda: draft(holdings, call, edit), still_wanted))
    if not isinstance(edit, Add):
        raise Refusal(f"this session has read {seen} content; it can take notes but not change {kind.name}")
    if len(trim(edit.text)) > kind.limit_chars:
        raise Refusal(f"refused: a note made of an add has at most {kind.limit_chars:,} characters")
    return _note(holdings, call, kind, edit.text, still_wanted)


def draft(holdings: Holdings, call: Call, edit: IdentityEdit, pending: str | None = None) -> Draft:
    """The change that an edit of identity makes of its file as it is now.

    Raises:
        Refusal: the edit breaks a rule.
        Fault: `memory-unavailable`.

    """
    kind = FILES[edit.file]
    made = outcome(edit, holdings.shelf.readable(kind).entries, kind)
    time = minute(holdings.shelf.clock())
    notes = [
        Note(Header(how=how, time=time, session=call.session, file=kind.name), text) for how, text in made.to_notes
    ]
    return Draft(
        kind=kind,
        after=made.entries,
        notes=notes,
        action=action_of(edit),
        session=call.session,
        call=call.call,
        label=call.label,
        by="agent",
        pending=pending,
    )


def check_texts(holdings: Holdings, texts: Sequence[str]) -> None:
    """Refuse texts that may not be remembered.

    Raises:
        Refusal: with the sentence of the rule.

    """
    for text in texts:
        check_form(text)
        if finding := holdings.check(text):
            raise Refusal(finding.sentence)


def answer_of(edit: Edit) -> str:
    """What the session is told of a write, from its journal line alone."""
    kind = BY_NAME.get(edit.went_to or "")
    if kind is None:
        label = Label(class_=edit.class_, untrusted=edit.untrusted)
        if edit.action == "note":
            return "noted (untrusted)" if label.untrusted else "noted"
        seen = _seen(label)
        return f"saved as a note ({seen}): this session has read {seen} content"
    after = texts(edit.after)
    holds = "" if after is None else f" ({of(size(after), kind.limit_chars)})"  # what was erased has no size
    return f"{kind.name} updated{holds}; it takes effect in the next session"


def answered(holdings: Holdings, session: str, call: str) -> str | None:
    """What a call was told when it was made; None for one that changed nothing yet."""
    if staged := holdings.shelf.review.find_call(session, call):
        return _answer_of_staged(staged)
    edit = holdings.shelf.journal.find_call(session, call)
    return answer_of(edit) if edit and edit.by == "agent" else None


def may_be_answered(holdings: Holdings, session: str, call: str) -> bool:
    """Whether it is worth asking `answered`, which reads the journal."""
    shelf = holdings.shelf
    return shelf.journal.knows_call(session, call) or shelf.review.find_call(session, call) is not None


def _answer_of_staged(staged: Staged) -> str:
    return f"{FILES[staged.file].name} is unchanged: the write waits for the owner as {staged.id}"


def _check(holdings: Holdings, call: Call, edit: IdentityEdit) -> None:
    """Refuse texts that may not be remembered; those that never fit by that alone, before they are looked through."""
    if size(written(edit)) > FILES[edit.file].limit_chars:
        holdings.writer.look()
        draft(holdings, call, edit)
    check_texts(holdings, written(edit))


def _seen(label: Label) -> str | None:
    """What the session has read that keeps it from identity, if anything."""
    if label.untrusted:
        return "untrusted"
    return label.class_.value if label.class_.rank > PRIVATE.class_.rank else None


def _note(holdings: Holdings, call: Call, kind: FileKind | None, untrusted_text: str, still_wanted: StillWanted) -> str:
    """Append a note; `kind` is the file that an add was meant for."""
    text = trim(untrusted_text)
    if not text:
        raise Refusal("refused: the entry is empty")
    if finding := holdings.check(text):
        raise Refusal(finding.sentence)

    def make() -> Draft:
        header = Header(how="noted", time=minute(holdings.shelf.clock()), session=call.session, label=call.label)
        return Draft(
            kind=kind,
            after=None,
            notes=[Note(header, text)],
            action="note" if kind is None else "add",
            session=call.session,
            call=call.call,
            label=call.label,
            by="agent",
        )

    return answer_of(holdings.writer.write(make, still_wanted))


def _stage(holdings: Holdings, call: Call, edit: IdentityEdit, still_wanted: StillWanted) -> str:
    """Keep a write for the owner, if it could be made now."""
    holdings.writer.look()
    draft(holdings, call, edit)
    if not still_wanted():
        raise Abandoned
    shelf = holdings.shelf
    pending = Pending(
        id=shelf.new_id(),
        time=stamp(shelf.clock()),
        session=call.session,
        call=call.call,
        action=action_of(edit),
        file=edit.file,
        class_=call.label.class_,
        untrusted=call.label.untrusted,
        arguments=call.raw,
    )
    shelf.review.stage(pending)
    return _answer_of_staged(Staged(pending.id, pending.file))
