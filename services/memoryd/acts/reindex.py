"""Feeding the index: what is new in the logs and in notes.md, or all of it anew (M5a section 6)."""

from memoryd.holdings import Holdings
from memoryd.index import Counts, NoteEntry


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


def rebuild(holdings: Holdings, entries: list[NoteEntry]) -> Counts:
    """Make the index anew beside the old one, and swap it in.

    Raises:
        Fault: `memory-index-damaged`.
        OSError: the folder cannot be used.

    """
    return holdings.index.rebuild(holdings.sessions, entries)
