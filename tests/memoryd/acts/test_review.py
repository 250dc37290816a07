"""Review: writes of identity wait for the owner, and notes never do."""

import json
from typing import Any

import pytest

from memoryd.acts import log, review, undo
from memoryd.config import Config, Memory
from memoryd.refusal import Refusal
from proto.frame import MAX_FRAME, pack
from proto.messages.memory import MemoryAdminReply, PendingEditsReply
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
    text = review.pending(reviewed.holdings, "")
    assert len(text.splitlines()) == 2
    assert text.splitlines()[0].endswith("  chat-a  add  memory.md")
    assert "two\\\\n2026-09-24-0001  forged" in text
    assert log.log(reviewed.holdings, "").count("\n") == 1


def test_nothing_waits(box: Box) -> None:
    assert review.pending(box.holdings, "") == "no writes wait for the owner; review is off ([memory] review)"
    assert review.pending(box.reopen(Config(memory=Memory(review=True))).holdings, "") == "no writes wait for the owner"


def _staged_line(box: Box, **changes: Any) -> str:
    line = {
        "id": "2026-09-24-0001", "time": "2026-09-24T12:00:00Z", "session": "chat-a", "call": "x", "action": "add",
        "file": "memory", "class": "private", "untrusted": False, "arguments": add("two"), **changes,
    }  # fmt: skip
    return json.dumps(line) + "\n"


BAD_LINES: dict[str, tuple[dict[str, Any] | str, str]] = {
    "no object": ("[1]\n", "it is not a JSON object"),
    "no JSON": ("garbage\n", "it is not a JSON object"),
    "no end of nesting": ("[" * 100_000 + "\n", "it is not a JSON object"),
    "nested arguments": (
        '{"arguments":' + '{"a":' * 600 + "1" + "}" * 601 + "\n",
        "Object missing required field `id`",
    ),
    "no arguments": ({"arguments": {}}, "Object missing required field `action`"),
    "a note": ({"arguments": note("x")}, "a note never waits"),
    "another file": ({"file": "user"}, "the arguments are of another action or file than the line says"),
    "another action": ({"action": "remove"}, "the arguments are of another action or file than the line says"),
    "a forged session": ({"session": "x\n§ noted"}, "Expected `str` matching regex"),
    "no id": ({"id": "first"}, "Expected `str` matching regex"),
    "an id that is taken": ({"id": "2026-09-24-0009"}, "another line has the id 2026-09-24-0009"),
}


@pytest.mark.parametrize("bad", BAD_LINES)
def test_a_damaged_line_is_named_and_costs_no_other(reviewed: Box, bad: str) -> None:
    what, reason = BAD_LINES[bad]
    good = _staged_line(reviewed, id="2026-09-24-0009", call="good", arguments=add("good"))
    damaged = what if isinstance(what, str) else _staged_line(reviewed, **what)
    reviewed.path("pending.jsonl").write_text(good + damaged)
    again = reviewed.reopen()
    assert _waiting(again) == ["2026-09-24-0009"]
    text = review.pending(again.holdings, "").splitlines()
    assert text[2:4] == ["", "lines that are no write and cannot be accepted:"]
    assert text[4].startswith("pending.jsonl, line 2: ")
    assert reason in text[4]
    for act in (review.accept, review.reject):
        with pytest.raises(Refusal, match="no write waits as 2026-09-24-0001"):
            act(again.holdings, "2026-09-24-0001")
    assert again.call(add("three")).endswith("waits for the owner as " + _waiting(again)[-1])
    assert len(set(_waiting(again))) == 2
    review.accept(again.holdings, "2026-09-24-0009")
    assert again.text("memory.md") == "one\n§\ngood"


def test_ids_go_on_from_the_highest_that_was_staged(reviewed: Box) -> None:
    lines = [_staged_line(reviewed, id=f"2099-01-01-{number}", call=number) for number in ("0007", "0003")]
    reviewed.path("pending.jsonl").write_text("".join(lines))
    again = reviewed.reopen()
    again.call(add("three"))
    assert _waiting(again)[-1] == "2099-01-01-0008"


def test_as_many_as_fit_are_listed_and_the_rest_is_counted(reviewed: Box) -> None:
    texts = ["漢" * 2_100 + f"{number:03}" for number in range(400)]
    for number, text in enumerate(texts):
        reviewed.call(add(text), call=f"w{number}")
    text = review.pending(reviewed.holdings, "")
    assert len(pack(MemoryAdminReply(text=text))) <= MAX_FRAME
    shown = text.count("  chat-a  add  memory.md")
    assert 0 < shown < 400
    assert text.splitlines()[-1] == f"… and {400 - shown} more wait, to be listed when these are decided"
    edits = review.pending_edits(reviewed.holdings)
    assert len(pack(PendingEditsReply(edits=edits))) <= MAX_FRAME
    assert edits[-1] == {"more": 400 - (len(edits) - 1)}
    assert [edit["id"] for edit in edits[:-1]] == _waiting(reviewed)[: len(edits) - 1]
    # One that is not listed yet can be decided all the same.
    review.reject(reviewed.holdings, _waiting(reviewed)[-1])


def test_pending_takes_no_argument(box: Box) -> None:
    with pytest.raises(Refusal, match="pending takes no argument"):
        review.pending(box.holdings, "x")


def test_a_repeated_call_is_told_that_it_waits_whatever_became_of_it(reviewed: Box) -> None:
    first = {call: reviewed.call(add(f"two {call}"), call=call) for call in ("1", "2", "3")}
    one, two, _ = _waiting(reviewed)
    review.accept(reviewed.holdings, one)
    review.reject(reviewed.holdings, two)
    for again in (reviewed, reviewed.reopen(Config())):
        assert {call: again.call(add("other"), call=call) for call in first} == first
        assert len(again.lines()) == 3
