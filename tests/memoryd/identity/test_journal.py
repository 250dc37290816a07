"""The edit journal: its ids, its lines, its breaks."""

import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.identity import journal as journal_of
from memoryd.identity.journal import Edit, EditJournal
from proto.chain import erase
from proto.labels import DataClass

NOON = datetime(2026, 9, 24, 12, 0, 5, tzinfo=UTC)


def _opened(folder: Path) -> EditJournal:
    (folder / "edits").mkdir(exist_ok=True)
    journal = EditJournal(folder / "edits", folder / "heads")
    journal.open(NOON)
    return journal


def _line(journal: EditJournal, now: datetime, after: list[str], **changes: Any) -> dict[str, Any]:
    latest = journal.latest("memory.md")
    edit = Edit(
        id=journal.new_id(now),
        time="2026-09-24T12:00:05Z",
        session="chat-a",
        call="c1",
        action="add",
        file="memory",
        went_to="memory.md",
        before=latest.after if latest else [],
        after=list(after),
        class_=DataClass.PRIVATE,
        untrusted=False,
        by="agent",
    )
    line: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(edit, **changes))
    journal.append(line)
    return line


def test_a_line_has_the_fields_of_the_contract(tmp_path: Path) -> None:
    journal = _opened(tmp_path)
    _line(journal, NOON, ["a"])
    (line,) = (tmp_path / "edits" / "2026-09.jsonl").read_text().splitlines()
    assert list(json.loads(line)) == [
        "id", "time", "session", "call", "action", "file", "went_to", "before", "after", "class", "untrusted", "by",
        "prev", "salt", "hash",
    ]  # fmt: skip


def test_ids_count_within_a_day_and_begin_anew_with_the_next(tmp_path: Path) -> None:
    journal = _opened(tmp_path)
    assert _line(journal, NOON, ["a"])["id"] == "2026-09-24-0001"
    assert _line(journal, NOON, ["a"])["id"] == "2026-09-24-0002"
    assert _line(journal, NOON + timedelta(days=1), ["a"])["id"] == "2026-09-25-0001"


def test_the_date_never_goes_below_the_last_lines(tmp_path: Path) -> None:
    journal = _opened(tmp_path)
    _line(journal, NOON, ["a"])
    assert _line(_opened(tmp_path), NOON - timedelta(days=400), ["a"])["id"] == "2026-09-24-0002"
    assert (tmp_path / "edits" / "2026-09.jsonl").read_text().count("\n") == 2


def test_the_number_grows_past_9999(tmp_path: Path) -> None:
    journal = _opened(tmp_path)
    _line(journal, NOON, ["a"], id="2026-09-24-9999")
    assert _line(journal, NOON, ["a"])["id"] == "2026-09-24-10000"
    assert _line(journal, NOON, ["a"])["id"] == "2026-09-24-10001"
    assert _opened(tmp_path).new_id(NOON) == "2026-09-24-10002"


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(-40, 40), min_size=1, max_size=8))
def test_no_id_is_used_twice_whatever_the_clock_does(days: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ids = []
        for day in days:
            journal = _opened(Path(folder))
            ids.append(_line(journal, NOON + timedelta(days=day), ["a"])["id"])
            assert journal.new_id(NOON, "2027-01-01-0007") == "2027-01-01-0008"
        order = [(each[:10], int(each[11:])) for each in ids]
        assert order == sorted(set(order))
        assert {state.first_bad for state in journal.verify()} == {None}


def test_the_last_lines_are_found_from_the_end(tmp_path: Path) -> None:
    journal = _opened(tmp_path)
    texts = [f"{number} " + "x" * 4000 for number in range(40)]
    for number, text in enumerate(texts):
        _line(journal, NOON + timedelta(days=number), [text])
    assert [line["after"] for line in journal.last(3)] == [[text] for text in texts[-3:]]
    assert len(journal.last(1000)) == 40
    assert [line["id"] for line in journal.last(1000)] == sorted(line["id"] for line in journal.last(1000))
    assert journal.last(0) == []


@given(st.lists(st.integers(0, 300), min_size=1, max_size=12), st.integers(1, 97))
def test_a_file_is_read_backwards_whatever_the_blocks_are(sizes: list[int], block_bytes: int) -> None:
    lines = [f"{number}{'x' * size}".encode() for number, size in enumerate(sizes)]
    with tempfile.NamedTemporaryFile() as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_of, "_BLOCK_BYTES", block_bytes)
        file.write(b"".join(line + b"\n" for line in lines))
        file.flush()
        assert list(journal_of._backwards(Path(file.name))) == lines[::-1]


def test_a_line_of_many_blocks_is_read_in_one_go(tmp_path: Path) -> None:
    journal = _opened(tmp_path)
    for text in ("a", "b" * 3_000_000, "c"):
        _line(journal, NOON, [text], before=[])
    assert [len(line["after"][0]) for line in journal.last(10)] == [1, 3_000_000, 1]


def test_an_edit_is_found_by_its_id(tmp_path: Path) -> None:
    journal = _opened(tmp_path)
    line = _line(journal, NOON, ["a"])
    found = journal.find(line["id"])
    assert found is not None
    assert found["after"] == ["a"]
    assert journal.find("2026-09-24-0009") is None
    assert journal.find("../../etc/passwd") is None


def test_a_torn_last_line_is_cut_off_and_told_of(tmp_path: Path) -> None:
    journal = _opened(tmp_path)
    _line(journal, NOON, ["a"])
    path = tmp_path / "edits" / "2026-09.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"id":"2026')
    torn, broken = EditJournal(tmp_path / "edits", tmp_path / "heads").open(NOON)
    assert [(cut.path, cut.bytes_cut) for cut in torn] == [(path, 11)]
    assert broken == []
    assert path.read_bytes() == whole


@pytest.mark.parametrize("how", ["a text", "a field", "the order", "a line cut out", "the end cut off", "no JSON"])
def test_a_break_is_found_marked_once_and_does_not_stop(tmp_path: Path, how: str) -> None:
    journal = _opened(tmp_path)
    for text in ("a", "b", "c"):
        _line(journal, NOON, [text])
    path = tmp_path / "edits" / "2026-09.jsonl"
    one, two, three = path.read_text().splitlines()
    broken = {
        "a text": [one, two.replace('"b"', '"B"'), three],
        "a field": [one, two.replace('"agent"', '"owner"'), three],
        "the order": [one, three, two],
        "a line cut out": [one, three],
        "the end cut off": [one, two],
        "no JSON": [one, "{", three],
    }[how]
    path.write_text("".join(f"{line}\n" for line in broken))
    again = EditJournal(tmp_path / "edits", tmp_path / "heads")
    _, found = again.open(NOON)
    assert [state.first_bad for state in found] == [3 if how == "the end cut off" else 2]
    last = json.loads(path.read_text().splitlines()[-1])
    assert last["chain_break"] is True
    assert last["breaks"][0] == {"path": "2026-09.jsonl", "first_bad": found[0].first_bad}
    _line(again, NOON, ["d"])
    lines = path.read_text().count("\n")
    once_more = EditJournal(tmp_path / "edits", tmp_path / "heads")
    assert once_more.open(NOON)[1] == []
    assert path.read_text().count("\n") == lines
    assert [state.first_bad for state in once_more.verify()] != [None]
    assert [line["after"] for line in once_more.last(1)] == [["d"]]


def test_an_erased_line_keeps_the_chain_and_has_no_texts(tmp_path: Path) -> None:
    journal = _opened(tmp_path)
    _line(journal, NOON, ["a"])
    _line(journal, NOON, ["b"])
    path = tmp_path / "edits" / "2026-09.jsonl"
    one, two = map(json.loads, path.read_text().splitlines())
    path.write_text(json.dumps(erase(one, ("before", "after"))) + "\n" + json.dumps(two) + "\n")
    again = EditJournal(tmp_path / "edits", tmp_path / "heads")
    assert again.open(NOON) == ([], [])
    found = again.find(one["id"])
    assert found is not None
    assert list(found["after"][0]) == ["hmac"]


def test_who_brought_an_entry_in_last(tmp_path: Path) -> None:
    journal = _opened(tmp_path)
    _line(journal, NOON, ["a"])
    _line(journal, NOON, ["a", "b"], by="owner")
    _line(journal, NOON, ["b"], by="owner")
    _line(journal, NOON, ["a", "b"], by="owner", action="undo")
    assert journal.written_by_sessions("memory.md") == {"a"}
    _line(journal, NOON, ["b"], by="owner")
    _line(journal, NOON, ["b", "a"], by="owner")
    assert journal.written_by_sessions("memory.md") == set()
    assert journal.written_by_sessions("user.md") == set()
