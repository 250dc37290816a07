"""What the owner is shown of the journal."""

import pytest

from memoryd.acts import log, show
from memoryd.refusal import Refusal
from proto.frame import MAX_FRAME, pack
from proto.messages.memory import EditsReply, MemoryAdminReply
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


@pytest.mark.parametrize("arg", ["-1", "ten", "1e3", "٣", " 1", "1 "])
def test_the_number_is_digits(box: Box, arg: str) -> None:
    with pytest.raises(Refusal, match="log takes the number of edits to show"):
        log.log(box.holdings, arg)


def test_an_add_that_became_a_note_says_so(box: Box) -> None:
    box.call(add("heard", "user"), UNTRUSTED)
    assert "  add     user.md → notes.md  agent" in log.log(box.holdings, "")


def test_no_edits(box: Box) -> None:
    assert log.log(box.holdings, "") == "no edits yet"
    assert log.edits(box.holdings, None, None) == []


def test_edits_are_the_lines_as_they_are_stored(box: Box) -> None:
    for number in range(12):
        box.call(note(f"n{number}"))
    lines = box.lines()
    assert log.edits(box.holdings, None, None) == lines[2:]
    assert log.edits(box.holdings, 2, None) == lines[-2:]
    assert log.edits(box.holdings, 0, None) == []
    assert log.edits(box.holdings, -5, None) == []
    assert log.edits(box.holdings, None, lines[4]["id"]) == [lines[4]]
    assert log.edits(box.holdings, None, "2020-01-01-0001") == []


def test_more_edits_than_fit_a_frame_are_cut_and_none_is_hidden(box: Box) -> None:
    for number in range(40):
        box.by_hand("memory.md", f"{number}" + "x" * 30_000)
        log.log(box.holdings, "0")
    edits = log.edits(box.holdings, 1000, None)
    assert [line["id"] for line in edits] == [line["id"] for line in box.lines()]
    assert len(pack(EditsReply(edits=edits))) <= MAX_FRAME
    assert edits[-1]["after"] == ["39" + "x" * 4_094 + "… (30,002 characters)"]
    assert edits[-1]["hash"] == box.lines()[-1]["hash"]
    # Ten of them fit as they are.
    assert log.edits(box.holdings, 10, None) == box.lines()[-10:]


def test_an_edit_larger_than_a_frame_is_given_cut_and_hides_no_other(box: Box) -> None:
    box.call(note("before"))
    header = "§ noted 2026-11-30T10:00Z in session chat-a · private\n"
    box.by_hand("notes.md", header + "y" * 3_000_000 + "\n" + (header + "z\n") * 100_000)
    box.call(note("after"))
    first, large, last = box.lines()
    assert len(large["after"]) == 100_001
    (shown,) = log.edits(box.holdings, None, large["id"])
    assert shown["after"][0] == "y" * 16_384 + "… (3,000,000 characters)"
    assert shown["after"][-1].endswith(" more)")
    assert {**shown, "after": 0, "before": 0} == {**large, "after": 0, "before": 0}
    ten = log.edits(box.holdings, None, None)
    assert [ten[0], ten[2]] == [first, last]
    assert ten[1]["id"] == large["id"]
    for edits in ([shown], ten):
        assert len(pack(EditsReply(edits=edits))) <= MAX_FRAME


def test_what_is_left_out_never_fills_the_frame(box: Box) -> None:
    box.by_hand("memory.md", "\n§\n".join(["\x01"] * 12_000))
    box.by_hand("notes.md", "".join(f"§ mine\nnote {number} {'é' * 200}\n" for number in range(3_000)))
    for number in range(3):
        box.call(note(f"n{number}"))
    text = log.log(box.holdings, "")
    assert len(pack(MemoryAdminReply(text=text))) <= MAX_FRAME
    assert text.splitlines()[-1] == "… and 2,800 more"
    assert text.splitlines()[:6][-1].split()[3] == "note"
    left_out, unread = show.named(show.left_out(box.holdings)), show.unread_notes(box.holdings)
    assert len(left_out) == len(unread) == 1_000
    assert left_out[-1].reason == "a control character; 11,000 more like it"
    assert unread[-1].reason.endswith("; 2,000 more like it")


@pytest.mark.parametrize(("arg", "rows"), [("0", 0), ("000", 0), ("2", 2), ("0" * 5_000 + "2", 2), ("9" * 5_000, 3)])
def test_the_number_may_have_any_number_of_digits(box: Box, arg: str, rows: int) -> None:
    for number in range(3):
        box.call(note(f"n{number}"))
    text = log.log(box.holdings, arg)
    assert len(text.splitlines()) == 1 + rows
    if not rows:
        assert text == "no edits shown: 0 were asked for"


def test_notes_without_a_header_are_named_with_their_number(box: Box) -> None:
    box.by_hand(
        "notes.md",
        "before any header\n"
        "§ noted 2026-11-30T10:00Z in session chat-own · private\nread\n"
        "§ noted 2026-11-30 in session chat-own · private\npapaya\x1b\nsecond line\n"
        "§ mine\nlychee\n",
    )
    lines = log.log(box.holdings, "").splitlines()
    at = lines.index("not shown by recall, since it has no header line that can be read:")
    assert lines[at + 1 :] == [
        "notes.md, note 1: before any header",
        "notes.md, note 3: papaya\\u{1b}\\nsecond line",
        "notes.md, note 4: lychee",
    ]
    assert [(note.number, note.text) for note in show.unread_notes(box.holdings)][2] == (4, "lychee")
    # Mended, it is found, and named no more.
    box.by_hand("notes.md", "§ noted 2026-11-30T10:00Z in session chat-own · private\npapaya\n")
    assert "not shown by recall" not in log.log(box.holdings, "")


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("\U0001f469\u200d\U0001f680 crew", True),
        ("\u2764\ufe0f", True),
        ("a\u200bb", False),
        ("\U0001f469\u200d\U0001f680 a\u200bb", False),
        ("\U0001f469\u200d\U0001f680 system prompt: x", False),
        ("\x01", False),
    ],
)
def test_an_entry_that_the_owner_could_let_pass_says_how(box: Box, entry: str, told: bool) -> None:
    box.by_hand("memory.md", entry)
    hint = "[check] allow_joiners = true in config/memoryd.toml would let it pass"
    lines = log.log(box.holdings, "").splitlines()
    at = lines.index("left out of the memory block:")
    assert lines[at + 2 :] == ([f"rule 2: {hint}"] if told else [])
    (shown,) = show.named(show.left_out(box.holdings))
    assert shown.reason.endswith(f"; {hint}") is told
