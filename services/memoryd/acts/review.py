"""The owner's review: what waits, and what becomes of it (M5a section 5, "Review")."""

from typing import Any, Final

import msgspec

from memoryd.acts import write
from memoryd.acts.fitting import ROOM_BYTES, fitting
from memoryd.holdings import Holdings
from memoryd.identity.edit import written
from memoryd.identity.entries import FILES
from memoryd.identity.journal import Edit
from memoryd.identity.review import Pending, edit_asked
from memoryd.identity.shelf import PENDING_NAME
from memoryd.refusal import Refusal
from proto.canon import compact
from proto.escape import clip
from proto.labels import Label
from proto.role.clock import stamp

_SHOWN_CHARS: Final = 2_000
_MOST_BAD: Final = 50


def pending(holdings: Holdings, arg: str) -> str:
    """The waiting writes as a text, oldest first, as many as fit a frame; then the lines that cannot be read as one.

    Raises:
        Refusal: `arg` is not empty.

    """
    if arg:
        raise Refusal("pending takes no argument")
    waiting, bad = holdings.shelf.review.waiting(), _bad_lines(holdings)
    if not waiting:
        none = "no writes wait for the owner" + ("" if holdings.review else "; review is off ([memory] review)")
        return "\n".join([none, *bad])
    parts: list[str] = []
    room = ROOM_BYTES - sum(len(line.encode()) + 1 for line in bad)
    for number, one in enumerate(waiting):
        shown = _shown(one)
        room -= len(shown.encode()) + 1
        if room < 0:
            parts.append(f"… and {len(waiting) - number:,} more wait, to be listed when these are decided")
            break
        parts.append(shown)
    return "\n".join([*parts, *bad])


def pending_edits(holdings: Holdings) -> list[dict[str, Any]]:
    """The waiting writes as they are stored, oldest first. Where not all fit a frame, long texts are cut; where that
    is not enough, the last map is `{"more": n}`, and so many more wait.
    """
    waiting = [msgspec.to_builtins(one) for one in holdings.shelf.review.waiting()]
    shown = fitting(waiting)
    return shown if len(shown) == len(waiting) else [*shown, {"more": len(waiting) - len(shown)}]


def accept(holdings: Holdings, id: str) -> str:
    """Make a write that waits, against the file as it is now, with the same checks.

    Raises:
        Refusal: with the reason; the write goes on waiting.
        Fault: `memory-unavailable`.

    """
    one = _waiting(holdings, id)
    arguments = edit_asked(one)  # looked at when it was taken up, too
    write.check_texts(holdings, written(arguments))
    label = Label(class_=one.class_, untrusted=one.untrusted)
    call = write.Call(session=one.session, call=one.call, label=label, arguments=arguments, raw=one.arguments)
    edit = holdings.writer.write(lambda: write.draft(holdings, call, arguments, pending=id), lambda: True)
    return f"{id} is accepted as {edit.id}: {write.answer_of(edit)}"


def reject(holdings: Holdings, id: str) -> str:
    """Discard a write that waits; the journal says so.

    Raises:
        Refusal: with the reason.
        Fault: `memory-unavailable`.

    """
    one = _waiting(holdings, id)
    holdings.writer.look()
    shelf = holdings.shelf
    entries = shelf.held(FILES[one.file]).entries
    edit = Edit(
        id=shelf.new_id(),
        time=stamp(shelf.clock()),
        session=one.session,
        call=one.call,
        action="reject",
        file=one.file,
        went_to=None,
        before=list(entries),
        after=list(entries),
        class_=one.class_,
        untrusted=one.untrusted,
        by="owner",
    )
    shelf.journal.append(msgspec.to_builtins(edit))
    shelf.review.resolve(id, "rejected", edit.id)
    return f"{id} is rejected; {edit.id} is the line of the journal that says so"


def _waiting(holdings: Holdings, id: str) -> Pending:
    found = holdings.shelf.review.find(id)
    if found is None:
        raise Refusal(f"no write waits as {clip(id, 40)}; bxctl memory pending lists them")
    return found


def _shown(one: Pending) -> str:
    """Two lines: what waits of whom, and what it would write."""
    first = clip(f"{one.id}  {one.time}  {one.session}  {one.action}  {FILES[one.file].name}", 200)
    said = {name: value for name, value in one.arguments.items() if name not in {"action", "file"}}
    return f"{first}\n    {clip(compact(said), _SHOWN_CHARS)}"


def _bad_lines(holdings: Holdings) -> list[str]:
    bad = holdings.shelf.review.bad
    if not bad:
        return []
    lines = [f"{PENDING_NAME}, line {one.number}: {clip(one.reason, 200)}" for one in bad[:_MOST_BAD]]
    more = [f"… and {len(bad) - len(lines):,} more"] if len(bad) > len(lines) else []
    return ["", "lines that are no write and cannot be accepted:", *lines, *more]
