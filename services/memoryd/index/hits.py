"""What goes into the index and what comes out of it: the values that the modules of this holding pass to each other."""

from typing import Final, Literal

import msgspec

from proto.labels import DataClass, Label

# How a text came to be here: said in a session, or the three headers of notes.md (M5a section 3).
Kind = Literal["record", "noted", "moved", "dropped"]
# Who speaks: the owner or another author, the assistant, the assistant calling a tool; `note` for entries of notes.md.
Role = Literal["user", "assistant", "call", "note"]
# What places untrusted hits may take: by rank, only behind the trusted ones, or none.
UntrustedMode = Literal["mixed", "last", "never"]

# `epoch` of everything until sessions are compacted.
FIRST_EPOCH: Final = 0


class NoteEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One entry of notes.md as its header gives it.

    `position` counts from 0 in the order of the file. `time` is RFC 3339, UTC, to the minute (`2026-09-24T21:02Z`).
    `file` is the name of the file that a moved or dropped entry came from (`memory.md`), else None. `label` is what the
    header says for a noted entry; moved and dropped ones are trusted and private.
    """

    position: int
    how: Literal["noted", "moved", "dropped"]
    time: str
    session: str
    file: str | None
    label: Label
    text: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One indexed text with its source: a row of `hits`, `sources` and `shown`.

    `record` is the number of the line in the session's log, or the position in notes.md. `author` is None for the
    owner.
    """

    kind: Kind
    session: str
    record: int
    time: str
    role: Role
    label: Label
    text: str
    author: str | None = None
    file: str | None = None
    epoch: int = FIRST_EPOCH


class Document(msgspec.Struct, frozen=True):
    """A row as ranking sees it, which of a long one is the beginning.

    `terms` are those of its author and text in their order, a space around each. `beyond` are terms that only the rest
    holds.
    """

    rowid: int
    time: str
    author: str | None
    text: str
    terms: str
    beyond: frozenset[str] = frozenset()


class Frequencies(msgspec.Struct, frozen=True):
    """How many rows there are, how many terms all hold together, and how many rows hold each term asked for."""

    rows: int
    terms_total: int
    holding: dict[str, int]


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """Where a hit is from, as the recall log keeps it (contract, "The files of M5a")."""

    kind: Kind
    session: str
    epoch: int
    record: int
    time: str
    label: Label


class RecallAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model is given: the text, its label, and the source of every hit, best first."""

    text: str
    label: Label
    hits: tuple[Hit, ...]


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Logs, records of logs and entries of notes.md that were read.

    `damaged` names the sessions whose log has a damaged line, or cannot be read; nothing after that line is indexed.
    """

    logs: int
    records: int
    notes: int
    damaged: tuple[str, ...] = ()


def note_row(note: NoteEntry) -> Row:
    """The row of an entry of notes.md."""
    label = note.label if note.how == "noted" else Label(class_=DataClass.PRIVATE, untrusted=False)
    return Row(
        kind=note.how,
        session=note.session,
        record=note.position,
        time=note.time,
        role="note",
        label=label,
        text=note.text,
        file=note.file,
    )
