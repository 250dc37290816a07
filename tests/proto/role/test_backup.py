"""A daemon's part of a backup: as it was at one moment, or whole lines; never what is being made, a link, a database."""

import os
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proto import frame
from proto.faults import Fault
from proto.messages.wire import BackupEnd, BackupFile, BackupPiece, ChainedJournal
from proto.role import backup
from proto.role.backup import PIECE_BYTES, send, take
from proto.role.loop import Loop
from proto.role.serve import Connection


class Kept:
    """A connection that keeps what is sent; `between` is called before each frame."""

    def __init__(self, between: Any = lambda: None) -> None:
        self.sent: list[msgspec.Struct] = []
        self._between = between

    async def send(self, message: msgspec.Struct) -> None:
        assert len(frame.pack(message)) <= frame.MAX_FRAME + frame.HEADER_BYTES
        self._between()
        self.sent.append(message)

    @property
    def files(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        path = ""
        for one in self.sent:
            if isinstance(one, BackupFile):
                path = one.path
                assert path not in found
                found[path] = b""
            elif isinstance(one, BackupPiece):
                found[path] += one.data
        return found

    @property
    def sizes(self) -> dict[str, int]:
        return {one.path: one.size_bytes for one in self.sent if isinstance(one, BackupFile)}


def _sent(home: Path, daemon: str, kept: Kept, *args: Any) -> BackupEnd:
    async def run() -> BackupEnd:
        return await send(cast(Connection, kept), home, daemon, *args)

    return anyio.run(run, backend_options={"loop_factory": Loop})


def _write(home: Path, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_bytes(data)


@settings(max_examples=20)
@given(
    files=st.dictionaries(
        st.sampled_from(
            ["sessions/chat-a/0.baseline.json", "sessions/chat-b/x", "state/loopd/turns/a.json", "state/loopd/y"]
        ),
        st.one_of(st.binary(max_size=100), st.integers(1, 3).map(lambda count: b"x" * (PIECE_BYTES - 1 + count))),
    )
)
def test_what_a_daemon_writes_is_in_its_part_and_nothing_else(files: dict[str, bytes], tmp_path_factory: Any) -> None:
    home = tmp_path_factory.mktemp("home")
    _write(home, {**files, "memory/memory.md": b"memoryd's", "state/egressd/x": b"egressd's", "other": b""})
    kept = Kept()
    end = _sent(home, "loopd", kept)
    assert kept.files == files
    assert kept.sizes == {path: len(data) for path, data in files.items()}
    assert (end.files, end.format, end.journals) == (len(files), 1, [])


def test_a_log_is_cut_at_a_whole_line(home: Path) -> None:
    big = b'{"x":"%s"}\n' % (b"y" * 100_000)
    _write(
        home, {"sessions/a/0.jsonl": b"{}\n{}\n{torn", "sessions/b/0.jsonl": b"torn", "sessions/c/0.jsonl": big + b"{"}
    )
    kept = Kept()
    _sent(home, "loopd", kept)
    assert kept.files == {"sessions/a/0.jsonl": b"{}\n{}\n", "sessions/b/0.jsonl": b"", "sessions/c/0.jsonl": big}


@pytest.mark.parametrize("size", [10, 200_000])
def test_what_was_taken_is_read_as_it_was(home: Path, size: int) -> None:
    files = {
        "memory/memory.md": b"a" * size,
        "memory/edits/1.jsonl": b"b" * (size - 1) + b"\n",
        "state/memoryd/heads": b"h",
    }
    _write(home, files)
    taken = take(home, "memory/", "state/memoryd/")
    for path in ("memory/memory.md", "state/memoryd/heads"):
        _write(home, {"new": b"another"})
        os.rename(home / "new", home / path)
    with (home / "memory/edits/1.jsonl").open("ab") as file:
        file.write(b"more\n")
    _write(home, {"memory/later.md": b"later"})
    kept = Kept()
    _sent(home, "memoryd", kept, taken)
    assert kept.files == {**files, "memory/later.md": b"later"}


def test_what_is_no_file_of_the_part_is_left_out(home: Path) -> None:
    _write(
        home,
        {
            "record/dom-me/.contexts/chat-a/c.json": b"kept",
            "record/.memory.md.0123456789ab.tmp": b"", "state/memoryd/.format.lock": b"", "memory/x.sqlite3": b"",
            "memory/x.sqlite3-wal": b"", "state/memoryd/before-0/memory/x": b"", "index/memory.sqlite3": b"",
        },
    )  # fmt: skip
    (home / "memory/link.md").symlink_to("/etc/passwd")
    (home / "memory/folder").symlink_to("/etc")
    os.mkfifo(home / "memory/fifo")
    (home / os.fsdecode(b"memory/\xff")).write_bytes(b"no name")
    kept = Kept()
    _sent(home, "memoryd", kept)
    assert kept.files == {"record/dom-me/.contexts/chat-a/c.json": b"kept"}


def test_what_says_of_others_is_read_after_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what is erased meanwhile is said to be, and no file is said to be there that is not."""
    folder = "record/dom-me/.contexts/chat-a"
    _write(home, {f"{folder}/c.json": b"kept", f"{folder}/c.request": b"body", f"{folder}/c.z": b"body"})

    def then_erased(home: Path, path: str) -> backup.Taken | None:
        taken = taken_of(home, path)
        (home / folder / "c.json").write_bytes(b"erased")
        (home / folder / "c.z").unlink(missing_ok=True)
        return taken

    taken_of = backup.taken_of
    monkeypatch.setattr(backup, "taken_of", then_erased)
    kept = Kept()
    _sent(home, "memoryd", kept)
    assert kept.files == {f"{folder}/c.request": b"body", f"{folder}/c.json": b"erased"}


def test_a_file_that_becomes_shorter_ends_the_part(home: Path) -> None:
    _write(home, {"sessions/a/big": b"x" * 3 * PIECE_BYTES})
    kept = Kept(lambda: os.truncate(home / "sessions/a/big", 10))
    with pytest.raises(Fault, match="sessions/a/big became shorter while it was read") as refused:
        _sent(home, "loopd", kept)
    assert refused.value.code == "backup-changed"


def test_what_was_taken_is_closed_when_nobody_reads_on(home: Path) -> None:
    _write(home, {"memory/a": b"x" * 100_000, "memory/b": b"x" * 100_000})
    taken = take(home, "memory/")

    def gone() -> None:
        raise anyio.BrokenResourceError

    with pytest.raises(anyio.BrokenResourceError):
        _sent(home, "memoryd", Kept(gone), taken)
    assert all(one.file.closed for one in taken)


def test_the_end_names_the_journals(home: Path) -> None:
    journal = ChainedJournal(path="memory/edits/", heads="state/memoryd/heads", text_fields=["before"])
    assert _sent(home, "memoryd", Kept(), (), (journal,)).journals == [journal]


def test_what_is_missing_is_nothing(home: Path) -> None:
    assert take(home, "memory/", "state/memoryd/heads") == []
    assert backup.taken_of(home, "memory/x/y") is None
