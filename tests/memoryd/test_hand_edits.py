"""What a hand changes is found, is the owner's, and is never overwritten."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from memoryd import files
from memoryd.acts import log, show, undo
from memoryd.refusal import Refusal
from proto.faults import Fault
from proto.role import durable
from tests.memoryd.box import SOUL, Box, add, consolidate, note


def _authors(box: Box) -> list[tuple[str, str, list[str]]]:
    return [(line["by"], line["action"], line["after"]) for line in box.lines()]


def _hidden(box: Box) -> list[str]:
    return [path.name for path in box.path(".").iterdir() if path.name.startswith(".")]


def test_it_is_found_at_start(box: Box) -> None:
    box.call(add("a"))
    box.by_hand("memory.md", "a\r\n§\r\nmine\r\n")
    box.by_hand("user.md", "me")
    again = box.reopen()
    assert _authors(again) == [
        ("agent", "add", ["a"]),
        ("owner", "edit", ["a", "mine"]),
        ("owner", "edit", ["me"]),
    ]
    line = again.lines()[1]
    assert (line["session"], line["call"], line["file"], line["went_to"]) == (None, None, "memory", "memory.md")
    assert (line["before"], line["class"], line["untrusted"]) == (["a"], "private", False)
    assert again.text("memory.md") == "a\r\n§\r\nmine\r\n"


def test_what_was_there_before_the_first_start_is_the_owners(home: Path) -> None:
    (home / "memory").mkdir()
    (home / "memory" / "memory.md").write_text("brought along")
    box = Box(home)
    assert _authors(box) == [("owner", "edit", ["brought along"])]
    box.close()


@pytest.mark.parametrize("look", ["block", "write", "log", "edits", "undo"])
def test_it_is_found_before_each(box: Box, look: str) -> None:
    box.call(add("a"))
    box.by_hand("memory.md", "a\n§\nmine\n")
    if look == "block":
        assert "\nmine\n" in show.block(box.holdings)
    elif look == "write":
        box.call(add("b"))
        assert box.text("memory.md") == "a\n§\nmine\n§\nb"
    elif look == "log":
        assert "owner" in log.log(box.holdings, "")
    elif look == "edits":
        assert log.edits(box.holdings, 1, None)[0]["by"] == "owner"
    else:
        with pytest.raises(Refusal, match="is not the latest edit of memory.md"):
            undo.undo(box.holdings, box.lines()[0]["id"])
    assert ("owner", "edit", ["a", "mine"]) in _authors(box)


def test_white_space_alone_is_no_edit(box: Box) -> None:
    box.call(add("a"))
    box.by_hand("memory.md", "\n\na \n§\n\n")
    box.call(add("b"))
    assert [line["by"] for line in box.lines()] == ["agent", "agent"]
    assert box.text("memory.md") == "a\n§\nb"


def test_a_hand_on_notes_is_journalled_with_only_what_it_changed(box: Box) -> None:
    box.call(note("one"))
    box.call(note("two"))
    box.by_hand("notes.md", box.text("notes.md").replace("one", "eins") + "mine, without a header")
    box.call(note("three"))
    assert _authors(box)[2:] == [
        ("owner", "edit", ["eins", "two\nmine, without a header"]),
        ("agent", "note", ["three"]),
    ]
    line = box.lines()[2]
    assert (line["file"], line["went_to"], line["before"]) == ("notes", "notes.md", ["one", "two"])
    assert box.text("notes.md").endswith(
        "mine, without a header\n" + box.text("notes.md").splitlines()[-2] + "\nthree\n"
    )


def test_a_hand_on_notes_is_found_at_start_once(box: Box) -> None:
    box.call(note("one"))
    box.by_hand("notes.md", "")
    again = box.reopen().reopen()
    assert _authors(again) == [("agent", "note", ["one"]), ("owner", "edit", [])]


def test_soul_is_neither_journalled_nor_changed(box: Box) -> None:
    box.by_hand("soul.md", "Another soul.\r\nTwo lines.\n\n")
    assert show.block(box.holdings).startswith("# soul.md\nAnother soul.\nTwo lines.\n\n# memory.md")
    assert box.lines() == []
    assert box.reopen().text("soul.md") == "Another soul.\r\nTwo lines.\n\n"


class Editor:
    """Saves in the moment before a swap, or in the moment after it."""

    def __init__(self, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
        self.box = box
        self.before: list[str] = []
        self.after: list[str] = []
        self._exchange = files.exchange
        monkeypatch.setattr(files, "exchange", self._swap)

    def _swap(self, one: Path, other: Path) -> None:
        if self.before:
            self.box.by_hand("memory.md", self.before.pop(0))
        self._exchange(one, other)
        if self.after:
            self.box.by_hand("memory.md", self.after.pop(0))


def test_a_save_in_the_moment_before_the_swap_is_the_owners_and_the_edit_is_made_on_it(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.call(add("a"))
    Editor(box, monkeypatch).before = ["a\n§\nmine"]
    box.call(add("b"))
    assert _authors(box)[1:] == [("owner", "edit", ["a", "mine"]), ("agent", "add", ["a", "mine", "b"])]
    assert box.text("memory.md") == "a\n§\nmine\n§\nb"


def test_an_edit_that_no_longer_fits_what_was_saved_is_refused_and_leaves_no_note(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.call(add("a"))
    Editor(box, monkeypatch).before = ["other"]
    with pytest.raises(Refusal, match="consolidate must name every entry"):
        box.call(consolidate({"old": "a", "move": True}))
    assert _authors(box)[1:] == [("owner", "edit", ["other"])]
    assert box.text("memory.md") == "other"
    assert box.text("notes.md") == ""


def test_a_save_in_the_moment_after_the_swap_is_the_owners_next_edit(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.call(add("a"))
    Editor(box, monkeypatch).after = ["mine"]
    box.call(add("b"))
    show.block(box.holdings)
    assert _authors(box)[1:] == [("agent", "add", ["a", "b"]), ("owner", "edit", ["mine"])]


def test_two_saves_around_the_swap_are_both_listed_and_the_last_one_stays(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.call(add("a"))
    editor = Editor(box, monkeypatch)
    editor.before, editor.after = ["first"], ["second"]
    box.call(add("b"))
    assert _authors(box)[1:] == [
        ("owner", "edit", ["first"]),
        ("owner", "edit", ["second"]),
        ("agent", "add", ["second", "b"]),
    ]
    assert box.text("memory.md") == "second\n§\nb"


def test_a_program_that_never_stops_saving_does_not_hold_memoryd_up(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = Editor(box, monkeypatch)
    editor.before = [f"save {number}" for number in range(100)]
    with pytest.raises(Fault, match="changes the file again and again"):
        box.call(add("b"))
    assert all(line["by"] == "owner" for line in box.lines())
    assert box.text("memory.md").startswith("save ")


def test_a_link_that_is_put_in_place_in_the_moment_before_the_swap_stays(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.call(add("a"))
    exchange, due = files.exchange, [True]

    def linked(one: Path, other: Path) -> None:
        if due:
            due.pop()
            other.unlink()
            other.symlink_to("nowhere")
        exchange(one, other)

    monkeypatch.setattr(files, "exchange", linked)
    with pytest.raises(Fault, match=r"memory\.md cannot be used: it is a symbolic link"):
        box.call(add("b"))
    assert box.path("memory.md").is_symlink()
    assert len(box.lines()) == 1
    assert _hidden(box) == []


@pytest.mark.parametrize("name", ["memory.md", "notes.md"])
def test_a_program_that_keeps_a_file_open_loses_nothing(box: Box, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    box.call(add("a"))
    box.call(note("n"))
    monkeypatch.setattr(files, "_PATIENCE_S", 0.01)
    mine = box.text(name).replace("a", "mine").replace("\nn", "\nmine")
    with box.path(name).open("r+") as editor:
        with pytest.raises(Fault, match=f"the change of {name} could not be written: another program has it open"):
            box.call(add("b") if name == "memory.md" else note("m"))
        assert len(box.lines()) == 2
        # What is there can still be served.
        assert "\na\n" in show.block(box.holdings)
        editor.write(mine)
    box.call(add("c"))
    assert [line["by"] for line in box.lines()] == ["agent", "agent", "owner", "agent"]
    assert "mine" in box.text(name)


def test_an_editor_that_opened_the_file_before_the_swap_and_writes_after_it_is_seen(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.call(add("a"))
    exchange, due, saving = files.exchange, [True], threading.Event()
    opened = threading.Event()

    def save() -> None:
        with box.path("memory.md").open("r+") as editor:
            opened.set()
            saving.wait()
            time.sleep(0.02)
            editor.write("mine")

    thread = threading.Thread(target=save)

    def late(one: Path, other: Path) -> None:
        if due:
            due.pop()
            thread.start()
            opened.wait()
        exchange(one, other)
        saving.set()

    monkeypatch.setattr(files, "exchange", late)
    box.call(add("b"))
    thread.join()
    assert _authors(box)[1:] == [("owner", "edit", ["mine"]), ("agent", "add", ["mine", "b"])]


def test_a_replaced_notes_file_gets_the_note_anew(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.call(note("one"))
    mine = box.text("notes.md").replace("one", "eins")
    fsync, due = os.fsync, [True]

    def replaced(handle: int) -> None:
        fsync(handle)
        if due and os.path.samestat(os.fstat(handle), box.path("notes.md").stat()):
            due.pop()
            box.by_hand("notes.md", mine)

    monkeypatch.setattr(os, "fsync", replaced)
    box.call(note("two"))
    assert _authors(box)[1:] == [("owner", "edit", ["eins"]), ("agent", "note", ["two"])]
    assert box.text("notes.md").startswith(mine)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xfe", "it is not UTF-8 (byte 1)"),
        (b"x" * 70_000, "it has 70,000 bytes, more than 65,536"),
        (b"x" * 2_201, "it is over its limit: 2,201 of 2,200 characters"),
    ],
)
def test_a_file_that_cannot_be_served_is_named_with_the_reason(box: Box, data: bytes, reason: str) -> None:
    box.call(add("a"))
    box.path("memory.md").write_bytes(data)
    with pytest.raises(Fault) as fault:
        show.block(box.holdings)
    assert (fault.value.code, fault.value.message) == ("memory-unavailable", f"memory.md cannot be used: {reason}")
    assert fault.value.runbook == "memory-unavailable"
    assert f"memory.md cannot be used: {reason}" in log.log(box.holdings, "")
    assert show.files(box.holdings)[1].problem == reason
    assert box.path("memory.md").read_bytes() == data
    # The other files can still be written.
    box.call(add("me", "user"))
    box.by_hand("memory.md", "a")
    assert "# memory.md (1 of" in show.block(box.holdings)


@pytest.mark.parametrize("name", ["soul.md", "memory.md", "user.md"])
def test_a_file_that_is_gone_or_a_link_is_not_served(box: Box, name: str, home: Path) -> None:
    box.path(name).unlink()
    with pytest.raises(Fault, match=f"{name} cannot be used: it is missing"):
        show.block(box.holdings)
    (home / "elsewhere").write_text("another")
    box.path(name).symlink_to(home / "elsewhere")
    with pytest.raises(Fault, match=f"{name} cannot be used: it is a symbolic link"):
        show.block(box.holdings)
    if name != "soul.md":
        with pytest.raises(Fault):
            box.call(add("b", name.removesuffix(".md")))
    assert box.lines() == []
    assert (home / "elsewhere").read_text() == "another"
    box.reopen()
    assert box.path(name).is_symlink()


def test_an_over_long_soul_is_not_served(box: Box) -> None:
    box.by_hand("soul.md", "x" * 4000 + "\n")
    show.block(box.holdings)
    box.by_hand("soul.md", "x" * 4001)
    with pytest.raises(Fault, match="soul.md cannot be used: it is over its limit: 4,001 of 4,000 characters"):
        show.block(box.holdings)


def test_a_start_makes_what_is_missing_and_overwrites_nothing(box: Box) -> None:
    box.by_hand("soul.md", "mine")
    box.path("user.md").unlink()
    again = box.reopen()
    assert (again.text("soul.md"), again.text("user.md")) == ("mine", "")
    again.path("soul.md").unlink()
    assert again.reopen().text("soul.md").encode() == SOUL
    for name in ("soul.md", "memory.md", "user.md", "notes.md"):
        assert again.path(name).stat().st_mode & 0o777 == 0o600
    assert again.path(".").stat().st_mode & 0o777 == 0o700


def test_a_hand_writes_what_the_check_would_refuse_and_the_block_leaves_it_out(box: Box) -> None:
    box.by_hand("memory.md", "good\n§\nnul\x00\n§\n# user.md (0 of 1,375 characters)\n§\nalso good")
    block = show.block(box.holdings)
    assert "# memory.md (59 of 2,200 characters)\ngood\n§\nalso good\n\n# user.md" in block
    assert [(one.file, one.number, one.rule) for one in show.left_out(box.holdings)] == [
        ("memory.md", 2, 1),
        ("memory.md", 3, 5),
    ]
    text = log.log(box.holdings, "")
    assert "memory.md, entry 2: a control character (rule 1): nul\\u{0}" in text
    assert "memory.md, entry 3: a heading of the memory block (rule 5): # user.md (0 of 1,375 characters)" in text


def test_a_head_that_cannot_be_kept_costs_nothing(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    replace, heads = durable.replace, box.home / "state" / "memoryd" / "heads"

    def full(path: Path, data: bytes) -> None:
        if path == heads:
            raise OSError(28, "No space left on device")
        replace(path, data)

    monkeypatch.setattr(durable, "replace", full)
    box.call(add("a"))
    box.by_hand("memory.md", "a\n§\nmine")
    show.block(box.holdings)
    box.call(note("n"))
    assert [line["by"] for line in box.lines()] == ["agent", "owner", "agent"]
    assert [state.first_bad for state in box.reopen().holdings.shelf.journal.verify()] == [None]


@pytest.mark.parametrize("name", ["intent.json", "temporary file", "notes.md"])
def test_what_cannot_be_begun_leaves_nothing_behind(box: Box, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    box.call(add("a"))
    box.call(note("n"))
    before = (box.lines(), box.text("memory.md"), box.text("notes.md"))
    fsync = os.fsync

    def full(handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")
        if path.endswith(name) or (name == "temporary file" and ".memory.md." in path):
            raise OSError(28, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises((Fault, OSError)):
        box.call(consolidate({"old": "a", "move": True}))
    monkeypatch.undo()
    if name == "temporary file":
        box = box.reopen()
    box.holdings.writer.look()
    assert (box.lines(), box.text("memory.md"), box.text("notes.md")) == before
    assert _hidden(box) == []
    box.call(consolidate({"old": "a", "move": True}))
    assert box.text("notes.md").endswith("\na\n")


def test_a_disk_that_refuses_costs_no_more_than_the_write(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.call(add("a"))
    real: Any = durable.sync_folder

    def full(path: Path) -> None:
        if path == box.path("."):
            raise OSError(28, "No space left on device")
        real(path)

    monkeypatch.setattr(durable, "sync_folder", full)
    sentence = box.call(add("b"))
    # The swap was made before the disk refused, so settling it makes the edit.
    assert sentence.startswith("memory.md updated")

    def refusing(one: Path, other: Path) -> None:
        full(box.path("."))

    monkeypatch.setattr(files, "exchange", refusing)
    with pytest.raises(Fault, match=r"the change of memory\.md could not be written"):
        box.call(add("c"))
    monkeypatch.undo()
    box.call(add("d"))
    assert [line["after"] for line in box.lines()] == [["a"], ["a", "b"], ["a", "b", "d"]]
