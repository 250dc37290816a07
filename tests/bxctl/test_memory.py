"""M5a section 14, "bxctl": reindex and each memory command against a fake socket; and the quick way is typer's way."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bxctl import quick
from proto.faults import Fault
from proto.messages.memory import (
    Edits,
    EditsReply,
    IndexState,
    LeftOut,
    MemoryAdmin,
    MemoryAdminReply,
    MemoryFile,
    MemoryShow,
    MemoryShowReply,
    PendingEdits,
    PendingEditsReply,
    Reindex,
    Reindexed,
    UnreadNote,
)
from tests.bxctl.conftest import Bxctl
from tests.bxctl.fakes import Fakes

ROW = "owner-memory"
EDIT = "2026-09-24-0007"


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["memory", "log"], MemoryAdmin(command="log", arg="")),
        (["memory", "log", "20"], MemoryAdmin(command="log", arg="20")),
        (["memory", "log", "0"], MemoryAdmin(command="log", arg="0")),
        (["memory", "log", "9" * 40], MemoryAdmin(command="log", arg="9" * 18)),
        (["memory", "undo", EDIT], MemoryAdmin(command="undo", arg=EDIT)),
        (["memory", "pending"], MemoryAdmin(command="pending", arg="")),
        (["memory", "accept", EDIT], MemoryAdmin(command="accept", arg=EDIT)),
        (["memory", "reject", EDIT], MemoryAdmin(command="reject", arg=EDIT)),
    ],
)
@pytest.mark.parametrize("by_typer", [False, True])
def test_a_command_of_memory_asks_and_prints(
    bxctl: Bxctl, fakes: Fakes, home: Path, words: list[str], asked: MemoryAdmin, by_typer: bool
) -> None:
    fakes.answer(ROW, MemoryAdmin, MemoryAdminReply(text="line one\nline two"))
    with fakes.serving():
        # bxctl's own reader takes this line; with an option before the command it is typer's.
        result = bxctl(*(["--home", str(home)] if by_typer else []), *words)
    assert (result.code, result.out, result.err) == (0, "line one\nline two\n", "")
    assert fakes.one(MemoryAdmin) == asked


def test_reindex_says_what_the_index_holds(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer(ROW, Reindex, Reindexed(logs=42, records=1208, notes=7))
    with fakes.serving():
        assert bxctl("reindex").out == "reindexed: 42 logs, 1,208 records, 7 notes\n"
        assert bxctl("reindex", "--json").json == {"kind": "reindexed", "logs": 42, "records": 1208, "notes": 7}


@pytest.mark.parametrize("words", [["memory", "log"], ["reindex"], ["memory", "show"], ["memory", "undo", EDIT]])
@pytest.mark.parametrize("by_typer", [False, True])
def test_memory_socket_names_another_socket(
    bxctl: Bxctl, fakes: Fakes, home: Path, words: list[str], by_typer: bool
) -> None:
    other = home / "other.sock"
    for kind in (MemoryAdmin, Reindex, MemoryShow):
        fakes.answer(ROW, kind, Fault("memory-refused", "asked elsewhere"), at=other)
    with fakes.serving():
        first = ["--home", str(home / "nowhere")] if by_typer else []
        result = bxctl(*first, *words, "--memory-socket", str(other))
    assert (result.code, result.err) == (1, "bxctl: asked elsewhere\n")


def test_the_log_for_scripts_is_the_journal(bxctl: Bxctl, fakes: Fakes) -> None:
    line = {"id": EDIT, "after": ["\u202e\x1b[2Jé"]}
    fakes.answer(ROW, Edits, EditsReply(edits=[line]))
    with fakes.serving():
        result = bxctl("memory", "log", "3", "--json")
    assert result.json["edits"] == [line]
    assert result.out.isascii()
    assert fakes.one(Edits) == Edits(last=3)


def test_waiting_writes_for_scripts(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer(ROW, PendingEdits, PendingEditsReply(edits=[{"id": EDIT}]))
    with fakes.serving():
        assert bxctl("memory", "pending", "--json").json["edits"] == [{"id": EDIT}]


def test_show_names_what_was_left_out_with_its_rule(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer(
        ROW,
        MemoryShow,
        MemoryShowReply(
            files=[
                MemoryFile(file="memory.md", chars=12, limit=2200, text="an entry\nof two lines", problem=None),
                MemoryFile(file="user.md", chars=1400, limit=1375, text="", problem="user.md is over its limit"),
            ],
            left_out=[
                LeftOut(file="memory.md", number=2, rule=4, reason="an instruction phrase", entry="system prompt:")
            ],
            index=IndexState(logs=3, records=1200, notes=4, damaged_logs=["chat-1/0.jsonl"]),
            review=True,
            unread_notes=[UnreadNote(number=7, reason="it has no header line", text="papaya")],
        ),
    )
    with fakes.serving():
        result = bxctl("memory", "show")
    assert "memory.md (12 of 2,200 characters)\nan entry\nof two lines\n" in result.out
    assert "user.md is over its limit" in result.out
    assert "left out of memory.md: entry 2, rule 4\nan instruction phrase\nsystem prompt:" in result.out
    assert "not shown by recall: notes.md, note 7\nit has no header line\npapaya\n" in result.out
    assert "index: 3 logs, 1,200 records, 4 notes\n  damaged: chat-1/0.jsonl\nreview: on" in result.out


def test_a_refusal_is_its_sentence_and_exit_code_1(bxctl: Bxctl, fakes: Fakes) -> None:
    sentence = "notes.md is append-only; edit it by hand"
    fakes.answer(ROW, MemoryAdmin, Fault("memory-refused", sentence))
    with fakes.serving():
        result = bxctl("memory", "undo", EDIT)
    assert (result.code, result.out, result.err) == (1, "", f"bxctl: {sentence}\n")


def test_without_memoryd_the_exit_code_is_3_and_says_what_to_do(bxctl: Bxctl, home: Path) -> None:
    result = bxctl("memory", "log")
    assert result.code == 3
    socket = home / "run/owner-memory/admin.sock"
    assert result.err == (
        f"bxctl: memoryd does not answer at {socket}; start the box with: bxctl up (runbook: daemon-unreachable)\n"
    )


def test_while_a_part_of_the_box_is_up_none_is_started_beside_it(bxctl: Bxctl, fakes: Fakes) -> None:
    assert bxctl("init").code == 0
    fakes.up("owner-loop")
    with fakes.serving():
        assert bxctl("memory", "log").code == 3


@pytest.mark.parametrize(
    "words",
    [["log", "-1"], ["log", "x"], ["log", "1", "2"], ["undo"], ["nothing"], ["log", "--nothing"]],
)
def test_a_wrong_line_is_exit_code_2(bxctl: Bxctl, words: list[str]) -> None:
    assert bxctl("memory", *words).code == 2


@given(
    st.lists(st.sampled_from(["memory", "log", "5", "--json", "--home", "/h", "--memory-socket=/s", "-x", "--help"]))
)
def test_the_quick_reader_takes_a_line_whole_or_not_at_all(words: list[str]) -> None:
    line = quick.read(words)
    if line is None:
        return
    given_back = [*line.words, *(["--json"] * line.json)]
    given_back += ["--home", line.home] if line.home else []
    given_back += [f"--memory-socket={line.memory_socket}"] if line.memory_socket else []
    spelled = sorted(set(words)) if "--json" in words else sorted(words)
    assert set(given_back) == set(spelled)
    assert not [word for word in line.words if word.startswith("-")]
