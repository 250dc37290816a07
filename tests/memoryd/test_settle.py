"""What a start makes of an intent that a crash left, and of a hand that came between the crash and the start."""

from pathlib import Path
from typing import Any

import pytest

from tests.memoryd.box import Box, add, consolidate, note, remove
from tests.memoryd.crash import crash_at

Line = tuple[str, str, list[str]]


def _lines(box: Box) -> list[Line]:
    return [(line["by"], line["action"], line["after"]) for line in box.lines()]


def _crashed(box: Box, arguments: dict[str, Any], step: str, *, after: bool) -> Box:
    """The home after a crash just before, or just after, a step of a write was done the first time."""
    base = box.path("memory.md").read_bytes(), box.path("notes.md").read_bytes()
    with crash_at(None) as steps:
        box.call(arguments)
    at = steps.names.index(step) + 1 + after
    # The same write, once more, on the same files; the one before is only there to be counted.
    for name, data in zip(("memory.md", "notes.md"), base, strict=True):
        box.path(name).write_bytes(data)
    box.holdings.writer.look()
    with crash_at(at):
        box.call(arguments)
    return box


def _new_lines(box: Box, before: list[Line]) -> list[Line]:
    again = box.reopen()
    found = _lines(again)
    assert found[: len(before)] == before
    assert [path.name for path in again.path(".").iterdir() if path.name.startswith(".")] == []
    assert (again.home / "state" / "memoryd" / "intent.json").read_bytes() == b""
    assert [state.first_bad for state in again.holdings.shelf.journal.verify()] == [None]
    again.close()
    return found[len(before) :]


def _temporary(box: Box) -> Path:
    (path,) = box.path(".").glob(".memory.md.*.tmp")
    return path


def test_before_the_swap_there_is_no_edit(box: Box) -> None:
    box.call(add("a"))
    _crashed(box, add("b"), "exchange", after=False)
    assert _new_lines(box, _lines(box)) == []
    assert box.text("memory.md") == "a"


def test_after_the_swap_the_edit_is_listed(box: Box) -> None:
    box.call(add("a"))
    _crashed(box, add("b"), "exchange", after=True)
    assert _new_lines(box, _lines(box)) == [("agent", "add", ["a", "b"])]


def test_a_hand_after_the_swap_comes_after_the_edit(box: Box) -> None:
    box.call(add("a"))
    _crashed(box, add("b"), "exchange", after=True)
    box.by_hand("memory.md", "a\n§\nb\n§\nmine")
    assert _new_lines(box, _lines(box)) == [("agent", "add", ["a", "b"]), ("owner", "edit", ["a", "b", "mine"])]


def test_a_hand_that_never_saw_the_edit_comes_after_it_too(box: Box) -> None:
    box.call(add("a"))
    _crashed(box, add("b"), "exchange", after=True)
    box.by_hand("memory.md", "a\n§\nmine")
    assert _new_lines(box, _lines(box)) == [("agent", "add", ["a", "b"]), ("owner", "edit", ["a", "mine"])]


def test_a_hand_before_the_swap_is_alone(box: Box) -> None:
    box.call(add("a"))
    _crashed(box, add("b"), "exchange", after=False)
    box.by_hand("memory.md", "a\n§\nmine")
    assert _new_lines(box, _lines(box)) == [("owner", "edit", ["a", "mine"])]


def test_a_version_that_the_swap_took_out_is_put_back(box: Box) -> None:
    box.call(add("a"))
    _crashed(box, add("b"), "exchange", after=True)
    # An editor had saved in the moment before the swap.
    _temporary(box).write_text("a\n§\nmine")
    assert _new_lines(box, _lines(box)) == [("owner", "edit", ["a", "mine"])]
    assert box.text("memory.md") == "a\n§\nmine"


def test_of_two_versions_around_the_swap_both_are_listed(box: Box) -> None:
    box.call(add("a"))
    _crashed(box, add("b"), "exchange", after=True)
    _temporary(box).write_text("first")
    box.by_hand("memory.md", "second")
    assert _new_lines(box, _lines(box)) == [("owner", "edit", ["first"]), ("owner", "edit", ["second"])]
    assert box.text("memory.md") == "second"


def test_a_version_that_cannot_be_read_is_set_aside(box: Box) -> None:
    box.call(add("a"))
    _crashed(box, add("b"), "exchange", after=True)
    _temporary(box).write_bytes(b"\xff")
    box.by_hand("memory.md", "second")
    assert _new_lines(box, _lines(box)) == [("owner", "edit", ["second"])]
    assert box.path("memory.md.unread").read_bytes() == b"\xff"


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("a\n§\nb", [("agent", "add", ["a", "b"])]),
        ("a", []),
        ("b\n§\nmine", [("agent", "add", ["a", "b"]), ("owner", "edit", ["b", "mine"])]),
        ("a\n§\nmine", [("owner", "edit", ["a", "mine"])]),
    ],
    ids=["after", "before", "the agent's part in it", "the agent's part not in it"],
)
def test_without_the_temporary_file_the_hashes_tell(box: Box, now: str, expected: list[Line]) -> None:
    box.call(add("a"))
    _crashed(box, add("b"), "exchange", after=True)
    _temporary(box).unlink()
    box.by_hand("memory.md", now)
    assert _new_lines(box, _lines(box)) == expected


def test_an_intent_that_was_journalled_is_only_tidied_up(box: Box) -> None:
    box.call(add("a"))
    state = box.home / "state" / "memoryd"
    with crash_at(None) as steps:
        box.call(consolidate({"old": "a", "move": True}))
    box.call(add("a"))
    with crash_at(steps.names.index("truncate") + 1):
        box.call(consolidate({"old": "a", "move": True}))
    assert (state / "intent.json").stat().st_size > 0
    before = _lines(box)
    notes = box.text("notes.md")
    assert _new_lines(box, before) == []
    assert box.text("notes.md") == notes


def test_half_an_intent_is_none(box: Box) -> None:
    box.call(add("a"))
    _crashed(box, add("b"), "exchange", after=False)
    path = box.home / "state" / "memoryd" / "intent.json"
    path.write_bytes(path.read_bytes()[:-20])
    assert _new_lines(box, _lines(box)) == []


def test_half_a_note_is_taken_back(box: Box) -> None:
    box.call(note("first"))
    whole = box.text("notes.md")
    _crashed(box, note("second"), "write", after=True)
    box.path("notes.md").write_text(whole + "§ noted 20")
    assert _new_lines(box, _lines(box)) == []
    assert box.text("notes.md") == whole


def test_a_note_is_the_agents_though_a_hand_changed_the_rest(box: Box) -> None:
    box.call(note("first"))
    with crash_at(None) as steps:
        box.call(note("counted"))
    written = [at for at, name in enumerate(steps.names, 1) if name == "fsync"][1]
    with crash_at(written):
        box.call(note("second"))
    assert box.text("notes.md").endswith("\nsecond\n")
    before = _lines(box)
    box.by_hand("notes.md", box.text("notes.md").replace("first", "mine"))
    assert _new_lines(box, before) == [("agent", "note", ["second"]), ("owner", "edit", ["mine"])]


def test_what_a_dropped_consolidate_moved_leaves_notes_though_a_hand_changed_them(box: Box) -> None:
    box.call(add("a"))
    box.call(note("first"))
    _crashed(box, remove("a"), "exchange", after=False)
    assert box.text("notes.md").endswith("\na\n")
    before = _lines(box)
    box.by_hand("notes.md", box.text("notes.md").replace("first", "mine"))
    assert _new_lines(box, before) == [("owner", "edit", ["mine"])]
    assert not box.text("notes.md").endswith("\na\n")
    assert box.text("memory.md") == "a"
