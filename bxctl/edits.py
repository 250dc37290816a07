"""The owner's commands on memory: few imports, so that they start at once (`quick` calls them without typer)."""

from typing import Literal

from bxctl import exits, render
from bxctl.places import Box
from proto.messages.memory import (
    Edits,
    EditsReply,
    MemoryAdmin,
    MemoryAdminReply,
    MemoryShow,
    MemoryShowReply,
    PendingEdits,
    PendingEditsReply,
    Reindex,
    Reindexed,
)

_ROW = "owner-memory"
_REINDEX_SECONDS = 3600.0


def log(box: Box, last: int | None, *, json: bool) -> int:
    """Print the last edits, by default 10."""
    if json:
        render.as_json(box.ask(_ROW, Edits(last=last), EditsReply))
        return exits.OK
    return _command(box, "log", "" if last is None else str(last))


def pending(box: Box, *, json: bool) -> int:
    """Print the writes that wait for review."""
    if json:
        render.as_json(box.ask(_ROW, PendingEdits(), PendingEditsReply))
        return exits.OK
    return _command(box, "pending", "")


def change(box: Box, command: Literal["undo", "accept", "reject"], edit: str, *, json: bool) -> int:
    """Undo an applied edit, or settle a waiting one."""
    reply: MemoryAdminReply = box.ask(_ROW, MemoryAdmin(command=command, arg=edit), MemoryAdminReply)
    if json:
        render.as_json(reply)
    else:
        render.lines(reply.text)
    return exits.OK


def reindex(box: Box, *, json: bool) -> int:
    """Have the index built anew, and wait for it."""
    done: Reindexed = box.ask(_ROW, Reindex(), Reindexed, timeout_s=_REINDEX_SECONDS)
    if json:
        render.as_json(done)
    else:
        render.line(f"reindexed: {done.logs:,} logs, {done.records:,} records, {done.notes:,} notes")
    return exits.OK


def show(box: Box, *, json: bool) -> int:
    """Print what a new session would be told, and what was left out of it."""
    memory: MemoryShowReply = box.ask(_ROW, MemoryShow(), MemoryShowReply)
    if json:
        render.as_json(memory)
        return exits.OK
    colours = render.coloured()
    for file in memory.files:
        render.heading(f"{file.file} ({file.chars:,} of {file.limit:,} characters)", on=colours)
        render.lines(file.problem or file.text or "(empty)")
        print()
    for entry in memory.left_out:
        render.heading(f"left out of {entry.file}: entry {entry.number}, rule {entry.rule}", on=colours)
        render.line(entry.reason)
        render.lines(entry.entry)
        print()
    for note in memory.unread_notes:
        render.heading(f"not shown by recall: notes.md, note {note.number}", on=colours)
        render.line(note.reason)
        render.lines(note.text)
        print()
    index = memory.index
    render.line(f"index: {index.logs:,} logs, {index.records:,} records, {index.notes:,} notes")
    for log_name in index.damaged_logs:
        render.line(f"  damaged: {log_name}")
    render.line(f"review: {'on' if memory.review else 'off'}")
    return exits.OK


def _command(box: Box, command: Literal["log", "pending"], arg: str) -> int:
    reply: MemoryAdminReply = box.ask(_ROW, MemoryAdmin(command=command, arg=arg), MemoryAdminReply)
    if command == "log":
        render.report(reply.text)
    else:
        render.lines(reply.text)
    return exits.OK
