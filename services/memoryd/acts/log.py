"""What the owner is shown of the edit journal (M5a section 5, "Undo")."""

from typing import Any, Final

import msgspec

from memoryd.acts import show
from memoryd.holdings import Holdings
from memoryd.identity.entries import FILES, NOTES_KEY, NOTES_NAME
from memoryd.identity.journal import Edit, edit_of
from memoryd.refusal import Refusal
from proto.escape import clip, escape
from proto.frame import MAX_FRAME

DEFAULT: Final = 10
_MOST_SHOWN: Final = 5_000
# What a reply's own map and keys need at most.
_ROOM_BYTES: Final = 4_096
_LEFT_OUT_CHARS: Final = 60


def log(holdings: Holdings, arg: str) -> str:
    """The last edits as a table, newest last, and the entries that are left out of the memory block.

    Raises:
        Refusal: `arg` is no number.
        Fault: `memory-unavailable`.

    """
    if arg and not (arg.isascii() and arg.isdigit() and len(arg) < 10):
        raise Refusal("log takes the number of edits to show")
    holdings.writer.look()
    count = min(int(arg), _MOST_SHOWN) if arg else DEFAULT
    edits = [edit for line in holdings.shelf.journal.last(count) if (edit := edit_of(line))]
    rows = [("id", "time", "session", "action", "file", "by"), *map(_row, edits)]
    parts = [_table(rows) if edits else "no edits yet", *_problems(holdings), *_left_out(holdings)]
    return "\n".join(parts)


def edits(holdings: Holdings, last: int | None, id: str | None) -> tuple[list[dict[str, Any]], bool]:
    """Lines of the journal as they are stored, newest last, and whether older ones were left out for want of room.

    Raises:
        Fault: `memory-unavailable`.

    """
    holdings.writer.look()
    if id is not None:
        line = holdings.shelf.journal.find(id)
        found = [line] if line else []
    else:
        found = holdings.shelf.journal.last(DEFAULT if last is None else min(max(0, last), _MOST_SHOWN))
    newest = fitting(found[::-1])
    return newest[::-1], len(newest) < len(found)


def fitting(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first lines, as many as fit a frame."""
    room = MAX_FRAME - _ROOM_BYTES
    for count, line in enumerate(lines):
        room -= len(msgspec.msgpack.encode(line))
        if room < 0:
            return lines[:count]
    return lines


def _row(edit: Edit) -> tuple[str, ...]:
    name: str = NOTES_NAME if edit.file == NOTES_KEY else FILES[edit.file].name
    if edit.went_to not in {None, name}:
        name = f"{name} → {edit.went_to}"
    return (edit.id, edit.time, edit.session or "-", edit.action, name, edit.by)


def _table(rows: list[tuple[str, ...]]) -> str:
    shown = [tuple(map(escape, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown
    )


def _problems(holdings: Holdings) -> list[str]:
    problems = [f"{file.file} cannot be used: {escape(file.problem)}" for file in show.files(holdings) if file.problem]
    if holdings.shelf.notes_problem:
        problems.append(f"{NOTES_NAME} cannot be used: {escape(holdings.shelf.notes_problem)}")
    return ["", *problems] if problems else []


def _left_out(holdings: Holdings) -> list[str]:
    found = show.left_out(holdings)
    lines = [
        f"{one.file}, entry {one.number}: {one.reason} (rule {one.rule}): {clip(one.entry, _LEFT_OUT_CHARS)}"
        for one in found
    ]
    return ["", "left out of the memory block:", *lines] if lines else []
