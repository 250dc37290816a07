"""What a new session is told, and what is kept from it (M5a section 4)."""

from memoryd.holdings import Holdings
from memoryd.identity.block import over_limit, render_block
from memoryd.identity.entries import FILES, SOUL_LIMIT_CHARS, SOUL_NAME, render, size
from memoryd.identity.shelf import unavailable
from proto.messages.memory import LeftOut, MemoryFile
from proto.role.log import logger


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
