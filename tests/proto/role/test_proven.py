"""What was found good once is not checked again, and nothing that was done to a journal is missed for it."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proto import chain
from proto.role import journal as journal_module
from proto.role.journal import FileState, Journal

PROVEN = "heads.proven"


def _journal(home: Path) -> Journal:
    return Journal(home, "*.jsonl", home / "heads", ("text",))


def _append(journal: Journal, begin: int, count: int) -> None:
    for number in range(begin, begin + count):
        journal.append(f"2026-0{1 + number // 4}.jsonl", {"n": number, "text": f"text {number}"})


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The lines whose chain was looked at; what was found good is kept after each three."""
    monkeypatch.setattr(journal_module, "_LINES_APART", 3)
    found: list[Any] = []

    def holds(line: Any, prev: str, fields: Any, of: Callable[..., bool] = chain.holds) -> bool:
        found.append(line["n"])
        return of(line, prev, fields)

    monkeypatch.setattr(chain, "holds", holds)
    return found


def _filled(home: Path) -> None:
    """Ten lines over three files, of which nine are known to be good."""
    journal = _journal(home)
    journal.open()
    _append(journal, 0, 10)


def test_only_what_is_not_known_to_be_good_is_checked(home: Path, checked: list[Any]) -> None:
    _filled(home)
    seen: list[Any] = []
    assert _journal(home).open(lambda line: seen.append(line["n"])) == ([], [])
    assert (checked, seen) == ([9], list(range(10)))
    checked.clear()
    again = _journal(home)
    assert again.open() == ([], [])
    _append(again, 10, 1)
    assert checked == [9]
    assert [state.first_bad for state in again.verify()] == [None, None, None]
    assert checked == [9, *range(11)], "who verifies checks all"


def test_a_journal_from_before_is_checked_once_and_then_known(home: Path, checked: list[Any]) -> None:
    _filled(home)
    (home / PROVEN).unlink()
    _journal(home).open()
    assert checked == list(range(10))
    checked.clear()
    _journal(home).open()
    assert checked == []


@pytest.mark.parametrize("kept", [b"", b"{}", b"[1]", b"\xff", b'[{"name":"2026-01.jsonl"}]', None])
def test_what_is_known_can_be_lost_or_be_anything(home: Path, checked: list[Any], kept: bytes | None) -> None:
    _filled(home)
    (home / PROVEN).unlink()
    if kept is not None:
        (home / PROVEN).write_bytes(kept)
    assert _journal(home).open() == ([], [])
    assert checked == list(range(10))


def test_a_disk_that_refuses_to_keep_it_costs_no_line(
    home: Path, checked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / PROVEN).mkdir()
    _filled(home)
    assert [state.first_bad for state in _journal(home).verify()] == [None, None, None]


def test_after_a_break_nothing_more_is_taken_for_good(home: Path, checked: list[Any]) -> None:
    _filled(home)
    path = home / "2026-01.jsonl"
    path.write_bytes(path.read_bytes().replace(b"text 1", b"text x"))
    again = _journal(home)
    _, bad = again.open()
    assert [(state.path.name, state.first_bad) for state in bad] == [("2026-01.jsonl", 2)]
    again.mark_break("2026-03.jsonl", {"n": -1})
    _append(again, 10, 8)
    for _ in range(2):
        _, bad = _journal(home).open()
        found = [(state.path.name, state.first_bad) for state in bad]
        assert found == [("2026-01.jsonl", 2), ("2026-03.jsonl", 3)]


_PLACES = st.tuples(st.sampled_from(["2026-01.jsonl", "2026-02.jsonl", "2026-03.jsonl"]), st.integers(0, 2000))
_DAMAGES = st.sampled_from(
    ["flip", "cut", "drop line", "swap lines", "twice", "junk", "no file", "rename", "no heads", "heads"]
)


def _damage(home: Path, how: str, name: str, at: int) -> None:
    path = home / name
    if not path.exists():
        return
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    here = at % max(1, len(lines))
    match how:
        case "flip":
            at %= max(1, len(data))
            data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] if data else b""
        case "cut":
            data = data[: at % (len(data) + 1)]
        case "drop line":
            data = b"".join(lines[:here] + lines[here + 1 :])
        case "swap lines":
            data = b"".join([*lines[:here], *lines[here:][::-1]])
        case "twice":
            data = b"".join([*lines[: here + 1], *lines[here:]])
        case "junk":
            data += b'{"n":-2}\n'
        case "no file":
            path.unlink()
            return
        case "rename":
            path.rename(home / f"2025-{name}")
            return
        case "no heads":
            (home / "heads").unlink(missing_ok=True)
        case "heads":
            (home / "heads").write_bytes(b'{"lines":4,"head":"%064d"}' % at)
        case _:
            raise AssertionError(how)
    path.write_bytes(data)


@settings(max_examples=100)
@given(st.lists(st.tuples(_DAMAGES, _PLACES), max_size=3), st.booleans())
def test_opening_finds_what_verifying_finds_whatever_was_done(damages: list[Any], marked: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_module, "_LINES_APART", 2)
        patch.setattr(os, "fsync", lambda _: None)
        home, plain = Path(folder, "home"), Path(folder, "plain", "home")
        home.mkdir()
        _filled(home)
        for how, (name, at) in damages:
            _damage(home, how, name, at)
        for _ in range(2):
            shutil.copytree(home, plain)
            (plain / PROVEN).unlink(missing_ok=True)
            opened, verified = _journal(home), _journal(plain).verify
            _, bad = opened.open()
            assert [_named(one) for one in bad] == [_named(one) for one in verified() if one.first_bad is not None]
            if marked:
                opened.mark_break("2026-03.jsonl", {"n": -1})
            _append(opened, 12, 3)
            shutil.rmtree(plain)


def _named(state: FileState) -> tuple[Any, ...]:
    return (state.path.name, *state[1:])
