"""Taking an edit back: the latest one of its file, while the file holds exactly what that edit left.

Anything else is refused with the reason, so an undo never overwrites a later change. The undo is an edit itself, so it
can be undone too.

Source: M5a section 5, "Undo"; contract, "The files of M5a"; architecture, point 10.
"""

from collections import Counter

from memoryd.holdings import Holdings
from memoryd.identity.edit import check_limit
from memoryd.identity.entries import BY_NAME, NOTES_NAME, FileKind, of, size
from memoryd.identity.journal import Edit, edit_of, texts
from memoryd.identity.writer import Draft
from memoryd.refusal import Refusal
from proto.escape import clip
from proto.labels import PRIVATE


def undo(holdings: Holdings, id: str) -> str:
    """Take an edit back, and say so.

    Raises:
        Refusal: with the reason.
        Fault: `memory-unavailable`.

    """
    done = holdings.writer.write(lambda: _draft(holdings, id), lambda: True)
    kind = BY_NAME[done.went_to or ""]
    holds = f"{kind.name} holds {of(size(texts(done.after) or []), kind.limit_chars)} again"
    return f"{id} is undone as {done.id}: {holds}"


def _draft(holdings: Holdings, id: str) -> Draft:
    edit, kind = _undoable(holdings, id)
    before, after = texts(edit.before), texts(edit.after)
    if before is None or after is None:
        raise Refusal(f"the texts of {id} were erased, so they cannot come back")
    entries = holdings.shelf.readable(kind).entries
    if entries != after:
        raise Refusal(f"{kind.name} no longer holds exactly what {id} left")
    by_sessions = holdings.shelf.journal.written_by_sessions(kind.name)
    for entry in Counter(before) - Counter(entries):
        if entry in by_sessions and (finding := holdings.check(entry)):
            raise Refusal(f"an entry that would come back does not pass the check: {finding.sentence}")
    check_limit(before, kind)
    return Draft(kind=kind, after=before, notes=(), action="undo", session=None, call=None, label=PRIVATE, by="owner")


def _undoable(holdings: Holdings, id: str) -> tuple[Edit, FileKind]:
    line = holdings.shelf.journal.find(id)
    edit = edit_of(line) if line else None
    if edit is None:
        if holdings.shelf.review.find(id):
            raise Refusal(f"{id} still waits for the owner; accept it or reject it")
        raise Refusal(f"there is no edit {clip(id, 40)}; bxctl memory log lists them")
    if edit.went_to == NOTES_NAME:
        raise Refusal("notes.md is append-only; edit it by hand")
    kind = BY_NAME.get(edit.went_to or "")
    if kind is None:
        raise Refusal(f"{id} was rejected and changed nothing")
    latest = holdings.shelf.journal.latest(kind.name)
    if latest is None or latest.id != id:
        raise Refusal(f"{id} is not the latest edit of {kind.name}" + (f"; {latest.id} is" if latest else ""))
    return edit, kind
