"""Feeding the index: what is new in the logs and in notes.md, or all of it anew (M5a section 6)."""

import os

from memoryd.holdings import Holdings
from memoryd.index import Breathe, Counts, NoteEntry
from proto.faults import Fault
from proto.ids import is_session_id


def notes(holdings: Holdings) -> list[NoteEntry]:
    """The notes as the index takes them. A note whose header a hand made unreadable has no label and is left out."""
    return [
        NoteEntry(
            position=position,
            how=note.header.how,
            time=note.header.time,
            session=note.header.session,
            file=note.header.file,
            label=note.header.label,
            text=note.text,
        )
        for position, note in enumerate(note for note in holdings.shelf.notebook.entries if note.header is not None)
        if note.header is not None
    ]


def bring_in_notes(holdings: Holdings) -> None:
    """Let the index hold the notes that are known now.

    Raises:
        Fault: `memory-index-damaged`.
        OSError: the folder cannot be used.

    """
    holdings.index.sync_notes(notes(holdings))


def rebuild(holdings: Holdings, entries: list[NoteEntry], breathe: Breathe = lambda: None) -> Counts:
    """Make the index anew beside the old one, and swap it in; `breathe` may end it, and then the old one stays.

    Raises:
        Fault: `memory-index-damaged`; `memory-unavailable`: sessions/ or index/ cannot be used.

    """
    sessions(holdings)
    try:
        return holdings.index.rebuild(holdings.sessions, entries, breathe)
    except OSError as error:
        raise Fault("memory-unavailable", f"the index cannot be made: {error}") from None


def sessions(holdings: Holdings) -> list[str]:
    """The sessions that have a folder, in no order; none when there is no folder of them yet.

    Raises:
        Fault: `memory-unavailable`: sessions/ is none, or cannot be read.

    """
    try:
        return [name for name in os.listdir(holdings.sessions) if is_session_id(name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        reason = error.strerror or str(error)
        raise Fault("memory-unavailable", f"{holdings.sessions} cannot be read: {reason}") from None
