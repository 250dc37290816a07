"""`bxctl backup` over fake daemons: what is asked in which order, what is believed of an answer, what the owner is told."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bxctl.commands.init import make
from bxctl.places import Box
from proto.faults import Fault
from proto.home import NOT_BACKED_UP, OWNER, PATHS
from proto.messages.wire import Backup, BackupEnd, BackupFile, BackupPiece
from proto.sockets import SOCKETS
from tests.bxctl.conftest import Bxctl
from tests.bxctl.fakes import Fakes

ROWS = {"owner-egress": "egressd", "owner-loop": "loopd", "owner-memory": "memoryd", "owner-broker": "brokerd"}


def _file(path: str, data: bytes, size_bytes: int | None = None) -> list[Any]:
    size_bytes = len(data) if size_bytes is None else size_bytes
    begun = BackupFile(path=path, size_bytes=size_bytes, mtime_ns=1)
    return [begun, *(BackupPiece(data=data[at : at + 3]) for at in range(0, len(data), 3))]


def _end(files: int = 1, format: int = 1) -> BackupEnd:
    return BackupEnd(format=format, files=files, journals=[])


def _part(daemon: str) -> list[Any]:
    return [*_file(f"state/{daemon}/x", daemon.encode()), _end()]


@pytest.fixture
def parts(fakes: Fakes) -> Fakes:
    make(Box(fakes.home), "Ada", "dom-me")
    (fakes.home / "credentials.env").write_text("KEY=1\n")
    for row, daemon in ROWS.items():
        fakes.answer(row, Backup, _part(daemon))
    return fakes


def _members(path: Path) -> set[str]:
    return {name.removeprefix("home/") for name in zipfile.ZipFile(path).namelist()}


def test_every_path_is_in_a_part_or_left_out_for_a_reason() -> None:
    asked = {row.server for row in SOCKETS if row.client == "bxctl" and Backup in row.requests}
    assert asked == set(ROWS.values())
    assert {row.path for row in PATHS if row.writer not in {OWNER, *asked}} <= set(NOT_BACKED_UP)
    assert set(NOT_BACKED_UP) <= {row.path for row in PATHS}


def test_each_daemon_sends_its_part_and_brokerd_the_last(parts: Fakes, bxctl: Bxctl, tmp_path: Path) -> None:
    target = tmp_path / "x.bxbackup"
    with parts.serving():
        result = bxctl("backup", str(target))
    assert (result.code, result.err) == (0, "")
    assert " without keys, made " in result.out
    own = {"grants.toml", "prices.toml", "config/loopd.toml", "grants/http_fetch.toml"}
    assert {f"state/{daemon}/x" for daemon in ROWS.values()} | own | {"manifest.json"} <= _members(target)
    assert "credentials.env" not in _members(target)
    assert [one.path for one in _files_of(target) if one.path.startswith("state/")][-1] == "state/brokerd/x"
    assert list(tmp_path.iterdir()) == [target]
    assert target.stat().st_mode & 0o777 == 0o600


def _files_of(path: Path) -> list[Any]:
    from bxctl.archive.read import Archive

    with Archive(path) as archive:
        return archive.manifest.files


def test_keys_come_only_when_they_are_asked_for(parts: Fakes, bxctl: Bxctl, tmp_path: Path) -> None:
    with parts.serving():
        result = bxctl("backup", str(tmp_path / "x"), "--with-credentials", "--json")
    assert "credentials.env" in _members(tmp_path / "x")
    assert result.json["credentials"] is True
    assert result.json["files"] == len(_members(tmp_path / "x")) - 1
    assert bxctl("backup", "--verify", str(tmp_path / "x"), "--json").json == result.json


def test_a_link_out_of_the_home_is_not_followed(parts: Fakes, bxctl: Bxctl, tmp_path: Path) -> None:
    (parts.home / "prices.toml").unlink()
    (parts.home / "prices.toml").symlink_to("/etc/passwd")
    (parts.home / "local").mkdir()
    (parts.home / "grants.toml").rename(parts.home / "local/grants.toml")
    (parts.home / "grants.toml").symlink_to("local/grants.toml")
    (parts.home / "policy" / "shared").symlink_to("/etc")
    (parts.home / "policy" / "#lock").symlink_to("an editor's own")
    with parts.serving():
        result = bxctl("backup", str(tmp_path / "x"))
    assert result.code == 0
    assert [line.partition(" is left out: ")[0] for line in result.err.splitlines()] == [
        "bxctl: policy/shared",
        "bxctl: prices.toml",
    ]
    assert "prices.toml" not in _members(tmp_path / "x")
    assert "grants.toml" in _members(tmp_path / "x")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([*_file("state/loopd/x", b"x"), _end()], "memoryd sent what belongs in no backup"),
        ([*_file("memory/../../x", b"x"), _end()], "memoryd sent what belongs in no backup"),
        ([*_file("memory/x", b"x"), _end(files=2)], "memoryd sent what belongs in no backup"),
        ([*_file("memory/x", b"x", 2), _end()], "memory/x has 1 bytes, and should have 2"),
        ([*_file("memory/x", b"xx", 1), _end()], "memory/x has 2 bytes, and should have 1"),
        ([*_file("memory/x", b"x"), *_file("memory/x", b"y"), _end(2)], "memory/x comes twice"),
        (_file("memory/x", b"x"), "memoryd hung up in the middle of its part"),
        ([*_file("memory/x", b"x"), _end(format=2)], "what memoryd keeps is of format 2"),
        ([*_file("memory/x", b"x"), Fault("backup-changed", "memory/x became shorter")], "memory/x became shorter"),
        (Fault("memory-unavailable", "the disk refused"), "the disk refused"),
    ],
)
def test_what_is_wrong_with_a_part_leaves_no_file(
    parts: Fakes, bxctl: Bxctl, tmp_path: Path, answer: Any, why: str
) -> None:
    (tmp_path / "x").write_text("an older one")
    if isinstance(answer, list) and isinstance(answer[-1], Fault):
        answer = _then_fault(answer)
    parts.answer("owner-memory", Backup, answer)
    with parts.serving():
        result = bxctl("backup", str(tmp_path / "x"))
    assert result.code in {1, 3}
    assert why in result.err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"x": "an older one"}


def _then_fault(answer: list[Any]) -> Any:
    async def desk(request: Any, connection: Any) -> Any:
        for event in answer[:-1]:
            await connection.send(event)
        raise answer[-1]

    return desk


def test_a_box_that_is_not_up_is_not_begun_with(bxctl: Bxctl, home: Path, tmp_path: Path) -> None:
    assert bxctl("init").code == 0
    result = bxctl("backup", str(tmp_path / "x"))
    assert result.code == 3
    assert "loopd does not answer" in result.err
    assert "bxctl up" in result.err
    assert list(tmp_path.iterdir()) == []


def test_where_it_cannot_be_written_is_told(parts: Fakes, bxctl: Bxctl, tmp_path: Path) -> None:
    with parts.serving():
        result = bxctl("backup", str(tmp_path / "no" / "x"))
        folder = bxctl("backup", str(tmp_path))
    assert result.code == folder.code == 1
    assert f"bxctl: {tmp_path}/no/x: No such file or directory (runbook: backup-failed)" in result.err
    assert "Is a directory (runbook: backup-failed)" in folder.err
    assert list(tmp_path.iterdir()) == []


def test_a_broken_chain_is_told_and_the_backup_is_there(parts: Fakes, bxctl: Bxctl, tmp_path: Path) -> None:
    from proto.messages.wire import ChainedJournal

    line = json.dumps({"kind": "x", "hash": "0" * 64}).encode() + b"\n"
    journal = ChainedJournal(path="audit/decisions.jsonl", heads="state/brokerd/heads", text_fields=["arguments"])
    end = BackupEnd(format=1, files=1, journals=[journal])
    parts.answer("owner-broker", Backup, [*_file("audit/decisions.jsonl", line), end])
    with parts.serving():
        result = bxctl("backup", str(tmp_path / "x"))
    said = "audit/decisions.jsonl in it: the chain is broken at line 1 (runbook: journal-damaged)"
    assert result.code == 4
    assert said in result.err
    again = bxctl("backup", "--verify", str(tmp_path / "x"))
    assert (again.code, said in again.err) == (4, True)


def test_what_is_no_backup_is_refused(bxctl: Bxctl, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"PK\x05\x06nothing")
    for command in (("backup", "--verify"), ("restore",)):
        result = bxctl(*command, str(tmp_path / "x"))
        assert result.code == 1
        assert "(runbook: backup-invalid)" in result.err
