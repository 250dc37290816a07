"""Journals: torn lines are cut, nothing before them is lost, and what was changed or cut is found."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proto.role.journal import Journal, JsonLines


def _journal(home: Path) -> Journal:
    return Journal(home, "*.jsonl", home / "heads.json", ("text",))


def _filled(home: Path, count: int = 4) -> Journal:
    journal = _journal(home)
    journal.open()
    for number in range(count):
        journal.append(f"2026-0{1 + number // 2}.jsonl", {"n": number, "text": f"text {number}"})
    return journal


def _first_bad(home: Path) -> list[tuple[str, int]]:
    return [(state.path.name, state.first_bad) for state in _journal(home).verify() if state.first_bad is not None]


def test_a_journal_over_several_files_is_one_chain(home: Path) -> None:
    _filled(home)
    assert _first_bad(home) == []
    again = _journal(home)
    assert again.open() == ([], [])
    again.append("2026-03.jsonl", {"n": 4, "text": "more"})
    assert _first_bad(home) == []
    assert [line["n"] for line in again.lines()] == [0, 1, 2, 3, 4]


@settings(max_examples=30)
@given(st.integers(1, 200))
def test_a_torn_last_line_is_cut_off_and_nothing_before_it(cut: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        log = JsonLines(Path(folder) / "log.jsonl")
        log.append({"a": 1}, {"b": "é\n"})
        kept = log.path.read_bytes()
        log.append({"c": "x" * 200})
        whole = log.path.read_bytes()
        log.path.write_bytes(whole[: len(whole) - cut])
        torn = log.mend()
        assert torn is not None
        assert log.path.read_bytes() == kept
        assert list(log.read()) == [{"a": 1}, {"b": "é\n"}]
        assert log.mend() is None


def test_a_changed_text_is_found(home: Path) -> None:
    _filled(home)
    path = home / "2026-01.jsonl"
    path.write_text(path.read_text().replace("text 1", "text 9"))
    assert _first_bad(home) == [("2026-01.jsonl", 2)]


def test_lines_cut_from_the_end_are_found_by_the_head(home: Path) -> None:
    _filled(home)
    path = home / "2026-02.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert _first_bad(home) == [("2026-02.jsonl", 2)]


def test_a_whole_file_cut_is_found(home: Path) -> None:
    _filled(home)
    (home / "2026-01.jsonl").unlink()
    assert _first_bad(home)[0] == ("2026-02.jsonl", 1)


def test_a_line_that_is_not_json_is_bad_and_the_rest_is_read(home: Path) -> None:
    journal = _filled(home)
    path = home / "2026-01.jsonl"
    path.write_text("nonsense\n" + path.read_text().split("\n", 1)[1])
    assert _first_bad(home)[0] == ("2026-01.jsonl", 1)
    assert [line["n"] for line in journal.lines()] == [1, 2, 3]


def test_a_head_that_is_one_line_behind_is_no_break(home: Path) -> None:
    journal = _filled(home, 2)
    behind = (home / "heads.json").read_bytes()
    journal.append("2026-02.jsonl", {"n": 2, "text": "x"})
    (home / "heads.json").write_bytes(behind)
    assert _journal(home).open() == ([], [])


@pytest.mark.parametrize("damage", ["{", "x" * 4000, ""])
def test_a_damaged_head_is_whole_again_after_the_next_line(home: Path, damage: str) -> None:
    _filled(home)
    (home / "heads.json").write_text(damage)
    journal = _journal(home)
    journal.open()
    journal.append("2026-03.jsonl", {"n": 9, "text": "after"})
    assert json.loads((home / "heads.json").read_text())["lines"] == 5
    assert _first_bad(home) == []


def test_a_head_that_cannot_be_read_is_a_break(home: Path) -> None:
    _filled(home)
    (home / "heads.json").write_text("{")
    assert _first_bad(home) == [("2026-02.jsonl", 3)]


def test_a_break_is_marked_once_and_stays_visible(home: Path) -> None:
    _filled(home)
    path = home / "2026-02.jsonl"
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    journal = _journal(home)
    _, bad = journal.open()
    assert len(bad) == 1
    journal.mark_break("2026-02.jsonl", {"n": "broken"})
    journal.append("2026-02.jsonl", {"n": 9, "text": "after"})
    assert _first_bad(home) == [("2026-02.jsonl", 2)]
    assert json.loads(path.read_text().splitlines()[1])["chain_break"] is True


def test_a_folder_that_cannot_be_synced_leaves_the_chain_whole(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = _filled(home)

    def _failing(path: Path) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("proto.role.durable.sync_folder", _failing)
        with pytest.raises(OSError, match="Too many"):
            journal.append("2026-03.jsonl", {"n": 8, "text": "lost"})
    journal.append("2026-03.jsonl", {"n": 9, "text": "kept"})
    assert _first_bad(home) == []
    assert [line["n"] for line in journal.lines()] == [0, 1, 2, 3, 9]


def test_an_append_that_fails_leaves_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = JsonLines(home / "log.jsonl")
    log.append({"a": 1})
    before = log.path.read_bytes()

    def _full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", _full)
    with pytest.raises(OSError, match="No space"):
        log.append({"b": 2})
    assert log.path.read_bytes() == before


def test_a_disk_that_does_not_take_back_what_it_took_costs_no_break(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = _filled(home)

    def _refusing(*_: object) -> None:
        raise OSError(5, "Input/output error")

    def _half(handle: int, data: bytes) -> None:
        write(handle, bytes(data)[:40])
        _refusing()

    write = os.write
    for name, failing in (("os.fsync", _refusing), ("os.write", _half)):
        with monkeypatch.context() as patched:
            patched.setattr(name, failing)
            patched.setattr("os.ftruncate", _refusing)
            with pytest.raises(OSError, match="Input/output"):
                journal.append("2026-02.jsonl", {"n": 8, "text": "there, whole or by half"})
        journal.append("2026-02.jsonl", {"n": 9, "text": "after it"})
    assert _first_bad(home) == []
    assert [line["n"] for line in journal.lines()][4:] == [8, 9, 9]


def test_lines_that_are_appended_together_are_one_write_and_as_good_as_one_by_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = _filled(home, 2)
    writes = 0
    real = JsonLines.write

    def counted(log: JsonLines, data: bytes, *, sync: bool = True) -> None:
        nonlocal writes
        writes += 1
        real(log, data, sync=sync)

    monkeypatch.setattr(JsonLines, "write", counted)
    journal.append("2026-02.jsonl", *({"n": number, "text": "x"} for number in range(2, 9)))
    assert (writes, journal.count) == (1, 9)
    assert [line["n"] for line in journal.lines()] == list(range(9))
    assert _first_bad(home) == []
    assert _journal(home).open() == ([], [])


@settings(max_examples=60)
@given(st.integers(1, 5), st.data())
def test_a_crash_in_one_write_of_several_lines_leaves_the_first_of_them(count: int, data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        journal = _filled(home, 2)
        path = home / "2026-01.jsonl"
        before = path.read_bytes()
        journal.append(path.name, *({"n": 2 + number, "text": "x"} for number in range(count)), sync=False)
        whole = path.read_bytes()
        left = data.draw(st.integers(len(before), len(whole)))
        path.write_bytes(whole[:left])
        again = _journal(home)
        _, bad = again.open()
        assert bad == []
        kept = whole[:left].count(b"\n")
        assert [line["n"] for line in again.lines()] == list(range(kept))
        again.append(path.name, {"n": 99, "text": "after"})
        assert _first_bad(home) == []


def test_of_lines_that_cannot_be_appended_together_none_is_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = _filled(home, 2)
    write = os.write

    def _half(handle: int, data: bytes) -> None:
        write(handle, bytes(data)[: len(data) * 2 // 3])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.write", _half)
        with pytest.raises(OSError, match="No space"):
            journal.append("2026-01.jsonl", *({"n": number, "text": "x"} for number in range(2, 5)), sync=False)
    with pytest.raises(ValueError, match="float"):
        journal.append("2026-01.jsonl", {"n": 2, "text": "x"}, {"n": 3.5, "text": "y"})
    journal.append("2026-01.jsonl", {"n": 5, "text": "x"})
    assert [line["n"] for line in journal.lines()] == [0, 1, 5]
    assert _first_bad(home) == []


def test_opening_shows_every_readable_line_once(home: Path) -> None:
    journal = _filled(home)
    path = home / "2026-01.jsonl"
    path.write_bytes(path.read_bytes() + b"[" * 100_000 + b"\n")
    shown: list[int] = []
    _, bad = journal.open(lambda line: shown.append(line["n"]))
    assert shown == [0, 1, 2, 3]
    assert (bad[0].path.name, bad[0].first_bad) == ("2026-01.jsonl", 3)


def test_a_line_that_waits_for_the_disk_has_no_head_yet(home: Path) -> None:
    journal = _filled(home, 2)
    before = (home / "heads.json").read_bytes()
    journal.append("2026-02.jsonl", {"n": 2, "text": "x"}, sync=False)
    journal.append("2026-02.jsonl", {"n": 3, "text": "y"}, sync=False)
    assert (home / "heads.json").read_bytes() == before
    end = journal.end("2026-02.jsonl")
    end.sync()
    journal.synced(end)
    assert json.loads((home / "heads.json").read_bytes())["lines"] == 4
    # What is kept never goes back, however late a sync is told of.
    journal.append("2026-02.jsonl", {"n": 4, "text": "z"})
    journal.synced(end)
    assert json.loads((home / "heads.json").read_bytes())["lines"] == 5
    assert _first_bad(home) == []


def test_after_a_sync_that_failed_the_files_say_where_the_chain_ends(home: Path) -> None:
    journal = _filled(home, 2)
    path = home / "2026-02.jsonl"
    journal.append(path.name, {"n": 2, "text": "x"}, sync=False)
    journal.doubt()
    path.write_bytes(b"")
    journal.append(path.name, {"n": 3, "text": "y"})
    assert [line["n"] for line in journal.lines()] == [0, 1, 3]
    assert _first_bad(home) == []
