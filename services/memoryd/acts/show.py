"""What a new session is told, and what is kept from it (M5a section 4)."""

from collections.abc import Sequence
from typing import Final

import msgspec

from memoryd.gate.check import HIDDEN, find
from memoryd.holdings import Holdings
from memoryd.identity.block import over_limit, render_block
from memoryd.identity.entries import FILES, SOUL_LIMIT_CHARS, SOUL_NAME, render, size
from memoryd.identity.shelf import unavailable
from proto.escape import clip
from proto.faults import Fault
from proto.messages.memory import LeftOut, MemoryFile, UnreadNote
from proto.role.log import logger

JOINERS: Final = "[check] allow_joiners = true in config/memoryd.toml would let it pass"
"""What the owner can do for emoji and words that need an invisible character."""
NO_HEADER: Final = "since it has no header line that can be read"
"""Why a note has no label, and recall cannot show it."""
_MOST_NAMED: Final = 1_000
_NAMED_CHARS: Final = 200


def block(holdings: Holdings) -> str:
    """The memory block.

    Raises:
        Fault: `memory-unavailable`: a file is over its limit or cannot be read; the message says which and why.

    """
    holdings.writer.look()
    soul, problem = holdings.shelf.soul()
    if problem:
        raise unavailable(SOUL_NAME, problem)
    entries = {key: holdings.shelf.servable(kind).entries for key, kind in FILES.items()}
    for one in left_out(holdings):
        logger().warning("entry-left-out", file=one.file, number=one.number, rule=one.rule, reason=one.reason)
    shown = {key: [entry for entry in these if holdings.check(entry) is None] for key, these in entries.items()}
    return render_block(soul, entries, shown)


def look_at_notes(holdings: Holdings) -> None:
    """Find what a hand changed in notes.md, so that recall knows of it; a disk that refuses does not stop a recall."""
    try:
        holdings.writer.look_at_notes()
    except Fault as fault:
        logger().error("notes-not-looked-at", error=fault.message)


def files(holdings: Holdings) -> list[MemoryFile]:
    """The three files as the last look found them."""
    soul, problem = holdings.shelf.soul()
    found = [MemoryFile(file=SOUL_NAME, chars=len(soul), limit=SOUL_LIMIT_CHARS, text=soul, problem=problem)]
    for kind in FILES.values():
        held = holdings.shelf.held(kind)
        chars = size(held.entries)
        found.append(
            MemoryFile(
                file=kind.name,
                chars=chars,
                limit=kind.limit_chars,
                text=render(held.entries),
                problem=held.problem or over_limit(chars, kind.limit_chars),
            )
        )
    return found


def left_out(holdings: Holdings) -> list[LeftOut]:
    """The entries that the check keeps out of the block."""
    return [
        LeftOut(file=kind.name, number=number, rule=finding.rule, reason=finding.what, entry=entry)
        for kind in FILES.values()
        for number, entry in enumerate(holdings.shelf.held(kind).entries, 1)
        if (finding := holdings.check(entry))
    ]


def needs_joiners(one: LeftOut) -> bool:
    """Whether an entry is left out only for joiners or selectors beside letters or emoji that need them."""
    return one.rule == HIDDEN.rule and find(one.entry, allow_joiners=True) is None


def named(found: Sequence[LeftOut]) -> list[LeftOut]:
    """As many entries left out as a reply has room for, with what would let one pass; the last one says how many more.

    Only of a file that is over its limit are there so many, and that is told beside it.
    """
    return [
        msgspec.structs.replace(one, reason=one.reason + _hint(one) + _more(at, len(found)))
        for at, one in enumerate(found[:_MOST_NAMED])
    ]


def unread_notes(holdings: Holdings) -> list[UnreadNote]:
    """The notes that have no label and that recall does not show; the last one says how many more there are."""
    found = holdings.shelf.notebook.unread
    return [
        UnreadNote(number=note.number, reason=NO_HEADER + _more(at, len(found)), text=clip(note.text, _NAMED_CHARS))
        for at, note in enumerate(found[:_MOST_NAMED])
    ]


def _hint(one: LeftOut) -> str:
    return f"; {JOINERS}" if needs_joiners(one) else ""


def _more(at: int, count: int) -> str:
    return f"; {count - _MOST_NAMED:,} more like it" if at == _MOST_NAMED - 1 and count > _MOST_NAMED else ""
