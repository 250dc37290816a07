"""The owner's review: what waits, and what becomes of it (M5a section 5, "Review")."""

from typing import Any

import msgspec

from memoryd.acts import write
from memoryd.acts.log import fitting
from memoryd.holdings import Holdings
from memoryd.identity.edit import IdentityEdit, written
from memoryd.identity.entries import FILES
from memoryd.identity.journal import Edit
from memoryd.identity.review import Pending
from memoryd.refusal import Refusal
from proto.canon import compact
from proto.escape import clip, escape
from proto.labels import Label
from proto.role.clock import stamp
from proto.tools import parse_arguments

_SHOWN_CHARS = 2_000
_MOST_SHOWN = 200


def pending(holdings: Holdings) -> str:
    """The waiting writes as a text, oldest first."""
    waiting = holdings.shelf.review.waiting()
    if not waiting:
        return "no writes wait for the owner" + ("" if holdings.review else "; review is off ([memory] review)")
    parts = []
    for one in waiting[:_MOST_SHOWN]:
        parts.append(escape(f"{one.id}  {one.time}  {one.session}  {one.action}  {FILES[one.file].name}"))
        said = {name: value for name, value in one.arguments.items() if name not in {"action", "file"}}
        parts.append(f"    {clip(compact(said), _SHOWN_CHARS)}")
    return "\n".join(parts)


def pending_edits(holdings: Holdings) -> list[dict[str, Any]]:
    """The waiting writes as they are stored, oldest first, as many as fit a frame."""
    return fitting([msgspec.to_builtins(one) for one in holdings.shelf.review.waiting()])


def accept(holdings: Holdings, id: str) -> str:
    """Make a write that waits, against the file as it is now, with the same checks.

    Raises:
        Refusal: with the reason; the write goes on waiting.
        Fault: `memory-unavailable`.

    """
    one = _waiting(holdings, id)
    arguments = parse_arguments("memory", one.arguments)
    assert isinstance(arguments, IdentityEdit)  # noqa: S101  (nothing else is staged)
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
