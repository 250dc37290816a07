"""Review: writes of identity wait for the owner, and notes never do."""

import pytest

from memoryd.acts import log, review, undo
from memoryd.config import Config, Memory
from memoryd.refusal import Refusal
from tests.memoryd.box import UNTRUSTED, Box, add, consolidate, note, remove


@pytest.fixture
def reviewed(box: Box) -> Box:
    box.call(add("one"))
    return box.reopen(Config(memory=Memory(review=True)))


def _waiting(box: Box) -> list[str]:
    return [pending.id for pending in box.holdings.shelf.review.waiting()]


def test_a_write_waits_and_is_accepted(reviewed: Box) -> None:
    answer = reviewed.call(add("two"), call="w")
    (waiting,) = _waiting(reviewed)
    assert answer == f"memory.md is unchanged: the write waits for the owner as {waiting}"
    assert reviewed.text("memory.md") == "one"
    assert len(reviewed.lines()) == 1
    assert review.pending_edits(reviewed.holdings) == [
        {
            "id": waiting, "time": reviewed.holdings.shelf.review.waiting()[0].time, "session": "chat-a", "call": "w",
            "action": "add", "file": "memory", "class": "private", "untrusted": False, "arguments": add("two"),
        }
    ]  # fmt: skip
    said = review.accept(reviewed.holdings, waiting)
    line = reviewed.lines()[-1]
    assert said == (
        f"{waiting} is accepted as {line['id']}: memory.md updated (9 of 2,200 characters);"
        " it takes effect in the next session"
    )
    assert (line["action"], line["session"], line["call"], line["by"]) == ("add", "chat-a", "w", "agent")
    assert _waiting(reviewed) == []
    assert reviewed.text("memory.md") == "one\n§\ntwo"


def test_a_write_is_rejected_and_the_journal_says_so(reviewed: Box) -> None:
    reviewed.call(add("two"), call="w")
    (waiting,) = _waiting(reviewed)
    said = review.reject(reviewed.holdings, waiting)
    line = reviewed.lines()[-1]
    assert said == f"{waiting} is rejected; {line['id']} is the line of the journal that says so"
    assert (line["action"], line["file"], line["went_to"], line["by"]) == ("reject", "memory", None, "owner")
    assert line["before"] == line["after"] == ["one"]
    assert _waiting(reviewed.reopen()) == []
    # It changed nothing: the edit before it can still be undone, and it cannot.
    with pytest.raises(Refusal, match="was rejected and changed nothing"):
        undo.undo(reviewed.holdings, line["id"])
    undo.undo(reviewed.holdings, reviewed.lines()[0]["id"])
    assert reviewed.text("memory.md") == ""


def test_it_still_waits_after_a_new_start_and_when_review_is_off(reviewed: Box) -> None:
    reviewed.call(add("two"))
    ids = _waiting(reviewed)
    again = reviewed.reopen(Config())
    assert _waiting(again) == ids
    review.accept(again.holdings, ids[0])
    assert again.text("memory.md") == "one\n§\ntwo"


def test_what_would_be_refused_now_is_refused_now(reviewed: Box) -> None:
    for arguments in (add("one"), remove("zero"), add("a\u200bb"), consolidate()):
        with pytest.raises(Refusal):
            reviewed.call(arguments)
    assert _waiting(reviewed) == []


def test_accept_checks_against_the_file_as_it_is_then(reviewed: Box) -> None:
    reviewed.call(remove("one"))
    (waiting,) = _waiting(reviewed)
    reviewed.by_hand("memory.md", "mine")
    with pytest.raises(Refusal, match="no entry of memory.md is exactly this old text"):
        review.accept(reviewed.holdings, waiting)
    assert _waiting(reviewed) == [waiting]


def test_notes_are_never_staged(reviewed: Box) -> None:
    assert reviewed.call(note("seen")) == "noted"
    assert reviewed.call(add("heard"), UNTRUSTED).startswith("saved as a note (untrusted)")
    assert _waiting(reviewed) == []


def test_no_id_is_that_of_an_edit_too(reviewed: Box) -> None:
    reviewed.call(add("two"))
    reviewed.call(note("seen"))
    reviewed.call(add("three"))
    ids = [line["id"] for line in reviewed.lines()] + _waiting(reviewed)
    assert len(set(ids)) == len(ids) == 4
    with pytest.raises(Refusal, match="still waits for the owner"):
        undo.undo(reviewed.holdings, _waiting(reviewed)[0])
    for act in (review.accept, review.reject):
        with pytest.raises(Refusal, match="no write waits as x; bxctl memory pending lists them"):
            act(reviewed.holdings, "x")
        with pytest.raises(Refusal, match="no write waits as"):
            act(reviewed.holdings, ids[0])


def test_the_waiting_writes_are_shown_escaped(reviewed: Box, box: Box) -> None:
    reviewed.call(add("two\n2026-09-24-0001  forged"))
    text = review.pending(reviewed.holdings)
    assert len(text.splitlines()) == 2
    assert text.splitlines()[0].endswith("  chat-a  add  memory.md")
    assert "two\\\\n2026-09-24-0001  forged" in text
    assert log.log(reviewed.holdings, "").count("\n") == 1


def test_nothing_waits(box: Box) -> None:
    assert review.pending(box.holdings) == "no writes wait for the owner; review is off ([memory] review)"
    assert review.pending(box.reopen(Config(memory=Memory(review=True))).holdings) == "no writes wait for the owner"
