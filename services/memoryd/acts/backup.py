"""memoryd's part of a backup: memory/ and what memoryd knows of it, as they are between two acts."""

from pathlib import Path
from typing import Final

from memoryd.holdings import Holdings
from memoryd.identity.journal import TEXT_FIELDS
from proto.messages.wire import ChainedJournal
from proto.role.backup import Taken, take

JOURNALS: Final = (ChainedJournal(path="memory/edits/", heads="state/memoryd/heads", text_fields=list(TEXT_FIELDS)),)


def at_one_moment(holdings: Holdings, home: Path) -> list[Taken]:
    """The files of memory/, with every change of a hand journalled, and the state that agrees with them.

    Raises:
        OSError: one cannot be read.

    """
    holdings.writer.look()
    return take(home, "memory/", "state/memoryd/")
