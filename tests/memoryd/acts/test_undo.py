"""Undo: the latest edit of a file, never over a later change, and itself undoable."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.acts import undo
from memoryd.gate import check
from memoryd.refusal import Refusal
from proto.chain import erase
from tests.memoryd.box import UNTRUSTED, Box, add, consolidate, note, remove, replace


def _undo(box: Box, line: dict[str, Any]) -> str:
    return undo.undo(box.holdings, line["id"])


def _refused(box: Box, id: str) -> str:
    with pytest.raises(Refusal) as refused:
        undo.undo(box.holdings, id)
    return refused.value.sentence


def test_the_latest_edit_is_taken_back_and_the_undo_is_an_edit(box: Box) -> None:
    box.call(add("a"))
    box.call(replace("a", "b"))
    one, two = box.lines()
    assert _undo(box, two) == f"{two['id']} is undone as {two['id'][:-1]}3: memory.md holds 1 of 2,200 characters again"
    assert box.text("memory.md") == "a"
    line = box.lines()[-1]
    keys = ("session", "call", "action", "file", "went_to", "before", "after", "by")
    assert [line[key] for key in keys] == [None, None, "undo", "memory", "memory.md", ["b"], ["a"], "owner"]
    assert _refused(box, one["id"]) == f"{one['id']} is not the latest edit of memory.md; {line['id']} is"


def test_the_undo_of_an_undo_is_the_identity(box: Box) -> None:
    box.call(add("a"))
    box.call(replace("a", "b"))
    _undo(box, box.lines()[-1])
    _undo(box, box.lines()[-1])
    assert box.text("memory.md") == "b"
    assert [line["action"] for line in box.lines()] == ["add", "replace", "undo", "undo"]


def test_files_are_undone_each_by_itself(box: Box) -> None:
    box.call(add("a"))
    box.call(add("me", "user"))
    box.call(note("seen"))
    _undo(box, box.lines()[0])
    assert (box.text("memory.md"), box.text("user.md")) == ("", "me")


def test_what_went_to_notes_stays_there(box: Box) -> None:
    box.call(add("a"))
    box.call(consolidate({"old": "a", "move": True}))
    _undo(box, box.lines()[-1])
    assert box.text("memory.md") == "a"
    assert box.text("notes.md").endswith("\na\n")


def test_a_note_cannot_be_undone(box: Box) -> None:
    box.call(note("seen"))
    box.call(add("heard"), UNTRUSTED)
    for line in box.lines():
        assert _refused(box, line["id"]) == "notes.md is append-only; edit it by hand"


def test_a_file_that_a_hand_changed_keeps_the_hands_change(box: Box) -> None:
    box.call(add("a"))
    box.by_hand("memory.md", "a\n§\nmine")
    line = box.lines()[0]
    assert _refused(box, line["id"]).startswith(f"{line['id']} is not the latest edit of memory.md; ")
    assert box.text("memory.md") == "a\n§\nmine"
    _undo(box, box.lines()[-1])
    assert box.text("memory.md") == "a"


@pytest.mark.parametrize("id", ["2026-01-01-0001", "", "nonsense", "../../x"])
def test_an_id_that_is_none(box: Box, id: str) -> None:
    assert _refused(box, id) == f"there is no edit {id}; bxctl memory log lists them"


def test_the_check_covers_what_comes_back_from_a_session(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.call(add("of a session"))
    box.by_hand("memory.md", "of a session\n§\nof a hand")
    box.call(remove("of a session"))
    box.call(remove("of a hand"))
    # A rule that came later: what passed when it was written does not pass now.
    strict = box.reopen()
    monkeypatch.setattr(check, "_PHRASES", ("of a",))
    _undo(strict, strict.lines()[-1])
    assert strict.text("memory.md") == "of a hand"


def test_an_entry_of_a_session_that_fails_the_check_does_not_come_back(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.call(add("of a session"))
    box.call(remove("of a session"))
    monkeypatch.setattr(check, "_PHRASES", ("of a session",))
    sentence = "an entry that would come back does not pass the check: refused: the entry contains an instruction phrase (rule 4)"
    assert _refused(box, box.lines()[-1]["id"]) == sentence
    assert box.text("memory.md") == ""


def test_an_undo_does_not_bring_a_file_over_its_limit(box: Box) -> None:
    box.by_hand("memory.md", "x" * 2300)
    box.call(remove("x" * 2300))
    sentence = "memory.md would be 2,300 of 2,200 characters; use consolidate to move entries to notes"
    assert _refused(box, box.lines()[-1]["id"]) == sentence


def test_what_was_erased_does_not_come_back(box: Box) -> None:
    box.call(add("a"))
    box.call(replace("a", "b"))
    box.close()
    path = next((box.home / "memory" / "edits").glob("*.jsonl"))
    lines = [json.dumps(erase(json.loads(line), ("before", "after"))) for line in path.read_text().splitlines()]
    path.write_text("".join(f"{line}\n" for line in lines))
    again = box.reopen()
    # The file cannot be compared with what was erased, so nothing is taken for the owner's edit.
    assert len(again.lines()) == 2
    line = again.lines()[-1]
    assert _refused(again, line["id"]) == f"the texts of {line['id']} were erased, so they cannot come back"


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(["add", "remove", "undo", "hand"]), min_size=1, max_size=8))
def test_undo_gives_the_state_before_and_its_undo_the_state_after(steps: list[str]) -> None:
    """Whatever happened before."""
    home = Path(tempfile.mkdtemp(prefix="bx"))
    box = Box(home)
    try:
        for number, step in enumerate(steps):
            box.holdings.writer.look()
            lines = box.lines()
            held = lines[-1]["after"] if lines else []
            if step == "add":
                box.call(add(f"entry {number}"))
            elif step == "remove" and held:
                box.call(remove(held[0]))
            elif step == "undo" and lines:
                _undo(box, lines[-1])
            elif step == "hand":
                box.by_hand("memory.md", f"by hand {number}")
        box.holdings.writer.look()
        for line in box.lines()[-1:]:
            _undo(box, line)
            assert box.lines()[-1]["after"] == line["before"]
            assert box.text("memory.md") == "\n§\n".join(line["before"])
            _undo(box, box.lines()[-1])
            assert box.lines()[-1]["after"] == line["after"]
    finally:
        box.close()
        shutil.rmtree(home)
