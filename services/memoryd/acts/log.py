"""What the owner is shown of the edit journal (M5a section 5, "Undo"), and of what is kept from sessions."""

from typing import Any, Final

from memoryd.acts import show
from memoryd.acts.fitting import ROOM_BYTES, fitting
from memoryd.gate.check import HIDDEN
from memoryd.holdings import Holdings
from memoryd.identity.entries import FILES, NOTES_KEY, NOTES_NAME
from memoryd.identity.journal import Edit, edit_of
from memoryd.refusal import Refusal
from proto.escape import clip, escape

DEFAULT: Final = 10
_MOST_SHOWN: Final = 5_000
_MOST_NAMED: Final = 200
_CELL_CHARS: Final = 64
_NAMED_CHARS: Final = 60


def log(holdings: Holdings, arg: str) -> str:
    """The last edits as a table, newest last; then what is wrong with the files, the entries that are left out of the
    memory block, and the notes that recall cannot show.

    Raises:
        Refusal: `arg` is no number.
        Fault: `memory-unavailable`.

    """
    count = _count(arg)
    holdings.writer.look()
    after = [*_problems(holdings), *_left_out(holdings), *_without_header(holdings)]
    room = ROOM_BYTES - sum(len(line.encode()) + 1 for line in after)
    return "\n".join([*_table(holdings, count, room), *after])


def edits(holdings: Holdings, last: int | None, id: str | None) -> list[dict[str, Any]]:
    """Lines of the journal as they are stored, newest last; where they do not fit a frame, with long texts cut, and
    then without the oldest.

    Raises:
        Fault: `memory-unavailable`.

    """
    holdings.writer.look()
    if id is not None:
        line = holdings.shelf.journal.find(id)
        found = [line] if line else []
    else:
        found = holdings.shelf.journal.last(DEFAULT if last is None else min(max(0, last), _MOST_SHOWN))
    return fitting(found[::-1])[::-1]


def _count(arg: str) -> int:
    if not arg:
        return DEFAULT
    if not (arg.isascii() and arg.isdigit()):
        raise Refusal("log takes the number of edits to show")
    # However many digits: Python reads no number of thousands of them.
    return min(int(arg[-12:]), _MOST_SHOWN) if not arg[:-12].strip("0") else _MOST_SHOWN


def _table(holdings: Holdings, count: int, room_bytes: int) -> list[str]:
    """The rows with their heading, without the oldest where not all have room."""
    if count == 0:
        return ["no edits shown: 0 were asked for"]
    edits = [edit for line in holdings.shelf.journal.last(count) if (edit := edit_of(line))]
    if not edits:
        return ["no edits yet"]
    cells = [tuple(clip(cell, _CELL_CHARS) for cell in _row(edit)) for edit in edits]
    cells.insert(0, ("id", "time", "session", "action", "file", "by"))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    heading, *rows = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )
    room = room_bytes - len(heading)
    for number, row in enumerate(reversed(rows)):
        room -= len(row.encode()) + 1
        if room < 0:
            return [heading, *rows[len(rows) - number :]]
    return [heading, *rows]


def _row(edit: Edit) -> tuple[str, ...]:
    name: str = NOTES_NAME if edit.file == NOTES_KEY else FILES[edit.file].name
    if edit.went_to not in {None, name}:
        name = f"{name} → {edit.went_to}"
    return (edit.id, edit.time, edit.session or "-", edit.action, name, edit.by)


def _problems(holdings: Holdings) -> list[str]:
    problems = [f"{file.file} cannot be used: {escape(file.problem)}" for file in show.files(holdings) if file.problem]
    if holdings.shelf.notes_problem:
        problems.append(f"{NOTES_NAME} cannot be used: {escape(holdings.shelf.notes_problem)}")
    return ["", *problems] if problems else []


def _left_out(holdings: Holdings) -> list[str]:
    found = show.left_out(holdings)
    lines = [
        f"{one.file}, entry {one.number}: {one.reason} (rule {one.rule}): {clip(one.entry, _NAMED_CHARS)}"
        for one in found[:_MOST_NAMED]
    ]
    lines = _named("left out of the memory block:", lines, len(found))
    return (
        [*lines, f"rule {HIDDEN.rule}: {show.JOINERS}"] if any(map(show.needs_joiners, found[:_MOST_NAMED])) else lines
    )


def _without_header(holdings: Holdings) -> list[str]:
    found = holdings.shelf.notebook.unread
    lines = [f"{NOTES_NAME}, note {note.number}: {clip(note.text, _NAMED_CHARS)}" for note in found[:_MOST_NAMED]]
    return _named(f"not shown by recall, {show.NO_HEADER}:", lines, len(found))


def _named(heading: str, lines: list[str], count: int) -> list[str]:
    if not lines:
        return []
    more = [f"… and {count - len(lines):,} more"] if count > len(lines) else []
    return ["", heading, *lines, *more]
