"""Whatever stands in a file, it is looked through as a whole or refused, and nothing is believed of it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bxctl.archive.manifest import is_path
from bxctl.archive.read import Archive
from proto.canon import compact
from proto.chain import ZERO, seal
from proto.faults import Fault
from proto.home import NOT_BACKED_UP, PATHS
from proto.role.journal import Journal
from tests.bxctl.archive.making import JOURNAL, forge, pack, said

FILES = {"memory/memory.md": b"one", "sessions/chat-a/0.jsonl": b"{}\n" * 1000, "grants.toml": b""}
NAMES = st.text(st.characters(codec="utf-8"), max_size=20)


def _refused(path: Path) -> Fault:
    with pytest.raises(Fault) as refused, Archive(path) as archive:
        archive.verify()
    return refused.value


def _members(files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"home/{name}": data for name, data in files.items()}


@settings(max_examples=25)
@given(
    files=st.dictionaries(
        st.sampled_from(["memory/a.md", "sessions/chat-a/0.jsonl", "record/dom-me/.contexts/chat-a/c.json", "audit/x"]),
        st.binary(max_size=5000),
    )
)
def test_what_was_packed_is_read(tmp_path: Path, files: dict[str, bytes]) -> None:
    path = tmp_path / "x.bxbackup"
    manifest = pack(path, files)
    with Archive(path) as archive:
        assert archive.manifest == manifest
        assert {row.path: b"".join(archive.pieces(row)) for row in manifest.files} == files
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_file_that_was_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    pack(path, FILES)
    data = path.read_bytes()
    for size in range(0, len(data) - 1, 7):
        path.write_bytes(data[:size])
        assert _refused(path).code == "backup-invalid"


@settings(max_examples=60)
@given(data=st.data())
def test_a_file_of_which_a_byte_was_changed_is_refused_or_the_same(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "x"
    pack(path, FILES)
    good = path.read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    path.write_bytes(good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :])
    assert _files_or_code(path) in (FILES, "backup-invalid", "home-newer")


def _files_or_code(path: Path) -> dict[str, bytes] | str:
    try:
        with Archive(path) as archive:
            archive.verify()
            return {row.path: b"".join(archive.pieces(row)) for row in archive.manifest.files}
    except Fault as fault:
        return fault.code


@pytest.mark.parametrize(
    "path",
    [
        "../x", "memory/../../x", "memory/..", "memory/", "/etc/passwd", "memory//x", "memory/./x", "memory\\x",
        "run/owner-loop/admin.sock", "index/memory.sqlite3", "state/bxctl/up.lock", "homes/x", "elsewhere", "state/x",
        "memory/a\x00b", "memory/a\nb", "memory/" + "a" * 256, "memory/" + "a/" * 600 + "b", "", ".restoring",
    ],
)  # fmt: skip
def test_a_path_that_no_home_has_is_refused(tmp_path: Path, path: str) -> None:
    made = forge(tmp_path / "x", said({path: b"x"}), {f"home/{path}": b"x"})
    assert _refused(made).code == "backup-invalid"
    assert not is_path(path)


@given(path=st.lists(st.one_of(st.sampled_from(["..", ".", "", "memory", "state", "memoryd"]), NAMES)).map("/".join))
def test_no_path_that_is_taken_leads_out_of_the_home(path: str) -> None:
    if is_path(path):
        resolved = (Path("/home") / path).resolve()
        assert str(resolved) == f"/home/{path}"
        assert any(resolved.is_relative_to(f"/home/{row.path}") for row in PATHS if row.path not in NOT_BACKED_UP)


@pytest.mark.parametrize("mode", [0o120777, 0o040700, 0o010600, 0o020600])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, mode: int) -> None:
    made = forge(tmp_path / "x", said({"memory/x": b"/etc"}), {"home/memory/x": b"/etc"}, mode)
    assert "home/memory/x is no plain file" in str(_refused(made))


@pytest.mark.parametrize(
    ("manifest", "members", "why"),
    [
        (None, _members(FILES), "it is no backup of a box"),
        (said(FILES), {}, "it holds other files than it says"),
        (said({}), _members(FILES), "it holds other files than it says"),
        (said(FILES), {**_members(FILES), "home/memory/more": b""}, "it holds other files than it says"),
        (said(FILES), {**_members(FILES), "home/grants.toml": b"x"}, "grants.toml is larger than it says"),
        (said(FILES), {**_members(FILES), "home/memory/memory.md": b"two"}, "memory/memory.md was changed"),
        (said({"memory/x": b"", "memory/x/y": b""}), {}, "memory/x is a file and a folder in it"),
        (said({"memory/x": b""}, boxmaker_backup=2), {}, "boxmaker_backup"),
        (said({"memory/x": b""}, more=1), {}, "more"),
        ({}, {}, "format"),
        ([], {}, "object"),
        (said(FILES, journals=[{"path": "x", "heads": "../y", "text_fields": []}]), _members(FILES), "names a journal"),
    ],
)
def test_a_manifest_that_is_not_of_what_is_there_is_refused(
    tmp_path: Path, manifest: object, members: dict[str, bytes], why: str
) -> None:
    refused = _refused(forge(tmp_path / "x", manifest, members))
    assert (refused.code, refused.runbook) == ("backup-invalid", "backup-invalid")
    assert why in refused.message


def test_a_path_that_stands_twice_is_refused(tmp_path: Path) -> None:
    twice = said({"memory/x": b"x"})
    twice["files"] *= 2
    assert "holds memory/x twice" in str(_refused(forge(tmp_path / "x", twice, {"home/memory/x": b"x"})))


def test_a_bomb_costs_no_more_than_it_said(tmp_path: Path) -> None:
    bomb = b"\0" * (64 << 20)
    made = forge(tmp_path / "x", said({"memory/x": b"\0" * 1000}), {"home/memory/x": bomb})
    assert made.stat().st_size < 1 << 17
    assert "memory/x is larger than it says" in str(_refused(made))


def test_a_newer_format_is_refused_by_its_own_name(tmp_path: Path) -> None:
    made = forge(tmp_path / "x", {"format": 2, "whatever": "comes"}, {"other": b""})
    assert _refused(made).code == "home-newer"


def test_what_is_encrypted_is_refused(tmp_path: Path) -> None:
    made = forge(tmp_path / "x", said({"memory/x": b"x"}), {"home/memory/x": b"x"})
    data = bytearray(made.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    made.write_bytes(data)
    assert _refused(made).code == "backup-invalid"


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    assert "Is a directory" in str(_refused(tmp_path))
    assert "No such file" in str(_refused(tmp_path / "no"))


def _journal(count: int) -> list[bytes]:
    lines, prev = [], ZERO
    for number in range(count):
        line = seal({"id": number, "before": ["x"], "after": [f"{number}"]}, prev, JOURNAL.text_fields)
        prev = line["hash"]
        lines.append(compact(line).encode() + b"\n")
    return lines


def _files(lines: list[bytes], kept: int) -> dict[str, bytes]:
    heads = {"lines": kept, "head": json.loads(LINES[kept - 1])["hash"]}
    return {
        "memory/edits/2026-08.jsonl": b"".join(lines[:2]),
        "memory/edits/2026-09.jsonl": b"".join(lines[2:]),
        "state/memoryd/heads": compact(heads).encode().ljust(128),
    }


LINES = _journal(5)


@pytest.mark.parametrize(
    ("change", "kept", "bad"),
    [
        (lambda lines: lines, 5, [None, None]),
        (lambda lines: lines, 3, [None, None]),  # a head may be behind
        (lambda lines: lines[:4], 5, [None, 3]),  # cut short
        (lambda lines: [*lines[:3], lines[3].replace(b'["3"]', b'["9"]'), lines[4]], 5, [None, 2]),
        (lambda lines: [lines[1], lines[0], *lines[2:]], 5, [1, 1]),
        (lambda lines: [lines[0], b"nothing\n", *lines[2:]], 5, [2, 1]),
    ],
)
def test_the_chain_of_a_journal_is_checked_as_the_daemon_does(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], kept: int, bad: list[int | None]
) -> None:
    home, path = tmp_path / "home", tmp_path / "x"
    files = _files(change(LINES), kept)
    pack(path, files, (JOURNAL,))
    for name, data in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(data)
    journal = Journal(home / "memory/edits", "*.jsonl", home / "state/memoryd/heads", JOURNAL.text_fields)
    with Archive(path) as archive:
        found = archive.verify()
    assert [state.first_bad for state in found] == bad
    assert [(state.lines, state.head, state.first_bad) for state in found] == [
        (state.lines, state.head, state.first_bad) for state in journal.verify()
    ]
