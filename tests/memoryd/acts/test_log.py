"""What the owner is shown of the journal."""

import msgspec
import pytest

from memoryd.acts import log
from memoryd.refusal import Refusal
from proto.frame import MAX_FRAME, pack
from proto.messages.memory import EditsReply
from tests.memoryd.box import UNTRUSTED, Box, add, note


def test_the_last_ten_by_default_newest_last(box: Box) -> None:
    for number in range(12):
        box.call(note(f"n{number}"))
    lines = box.lines()
    shown = log.log(box.holdings, "").splitlines()
    assert shown[0].split() == ["id", "time", "session", "action", "file", "by"]
    assert [row.split() for row in shown[1:]] == [
        [line["id"], line["time"], "chat-a", "note", "notes.md", "agent"] for line in lines[2:]
    ]
    assert len(log.log(box.holdings, "3").splitlines()) == 4
    assert len(log.log(box.holdings, "99999999").splitlines()) == 13


@pytest.mark.parametrize("arg", ["-1", "ten", "1e3", "٣", "9" * 10, " 1"])
def test_the_number_is_digits(box: Box, arg: str) -> None:
    with pytest.raises(Refusal, match="log takes the number of edits to show"):
        log.log(box.holdings, arg)


def test_an_add_that_became_a_note_says_so(box: Box) -> None:
    box.call(add("heard", "user"), UNTRUSTED)
    assert "  add     user.md → notes.md  agent" in log.log(box.holdings, "")


def test_no_edits(box: Box) -> None:
    assert log.log(box.holdings, "") == "no edits yet"
    assert log.edits(box.holdings, None, None) == ([], False)


def test_edits_are_the_lines_as_they_are_stored(box: Box) -> None:
    for number in range(12):
        box.call(note(f"n{number}"))
    lines = box.lines()
    assert log.edits(box.holdings, None, None) == (lines[2:], False)
    assert log.edits(box.holdings, 2, None) == (lines[-2:], False)
    assert log.edits(box.holdings, 0, None) == ([], False)
    assert log.edits(box.holdings, -5, None) == ([], False)
    assert log.edits(box.holdings, None, lines[4]["id"]) == ([lines[4]], False)
    assert log.edits(box.holdings, None, "2020-01-01-0001") == ([], False)


def test_more_edits_than_fit_a_frame(box: Box) -> None:
    for number in range(40):
        box.by_hand("memory.md", f"{number}" + "x" * 30_000)
        log.log(box.holdings, "0")
    edits, more = log.edits(box.holdings, 1000, None)
    assert more
    assert edits == box.lines()[-len(edits) :]
    assert MAX_FRAME * 0.8 < len(pack(EditsReply(edits=edits, more=more))) <= MAX_FRAME
    assert msgspec.msgpack.encode(edits)
