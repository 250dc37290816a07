"""The exchange of homes: whatever cuts it off there is a whole home, old or new, and the next one finishes."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bxctl.archive import swap
from bxctl.archive.read import Archive
from proto.faults import Fault
from proto.home import PATHS
from tests.bxctl.archive.making import forge, pack, said
from tests.memoryd.crash import Steps, crash_at

OLD = {"memory/memory.md": b"old", "grants.toml": b"# old\n", "credentials.env": b"KEY=old\n", "state/brokerd/x": b"o"}
NEW = {"memory/memory.md": b"new", "sessions/chat-a/0.jsonl": b"{}\n", "grants.toml": b"# new\n"}
TIME = "20260924T210203Z"


def _write(home: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (home / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (home / name).write_bytes(data)
    return home


def _files(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def _restore(home: Path, backup: Path) -> Path | None:
    with Archive(backup) as archive:
        archive.verify()
        done, before = swap.settle(home, archive.sha256)
        return before if done else swap.put(home, archive, TIME, lambda _: None)


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    path = tmp_path / "backup"
    pack(path, NEW)
    return path


@contextmanager
def _crash_at(last: int | None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    with monkeypatch.context() as patch, crash_at(last) as steps:
        for where, name in ((swap, "exchange"), (os, "utime"), (os, "rmdir")):
            real = getattr(where, name)
            patch.setattr(where, name, lambda *a, _real=real, _name=name, **k: steps.step(_name, _real, *a, **k))
        patch.setattr(os, "sync", lambda: None)
        yield steps


def test_the_new_home_is_in_place_and_the_old_one_beside_it(tmp_path: Path, backup: Path) -> None:
    home = _write(tmp_path / "home", OLD)
    before = _restore(home, backup)
    assert before == tmp_path / f"home.before-{TIME}"
    assert _files(before) == OLD
    assert _files(home) == {**NEW, "credentials.env": b"KEY=old\n"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "home", before.name]
    assert {oct(path.stat().st_mode & 0o777) for path in [home, *home.rglob("*")] if path.is_dir()} == {"0o700"}
    assert {oct((home / name).stat().st_mode & 0o777) for name in NEW} == {"0o600"}
    assert (home / "sessions/chat-a/0.jsonl").stat().st_mtime_ns == 1_790_284_923_000_000_001


def test_where_there_is_no_home_one_is_made(tmp_path: Path, backup: Path) -> None:
    assert _restore(tmp_path / "home", backup) is None
    assert _files(tmp_path / "home") == NEW
    folders = {row.path for row in PATHS if row.path.endswith("/")} | {"local"}
    assert all((tmp_path / "home" / folder).is_dir() for folder in folders)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "home"]


def test_a_second_one_keeps_the_first_ones_home_too(tmp_path: Path, backup: Path) -> None:
    home = _write(tmp_path / "home", OLD)
    first, second = _restore(home, backup), _restore(home, backup)
    assert first is not None
    assert second == tmp_path / f"home.before-{TIME}-2"
    assert _files(first) == OLD
    assert _files(second) == _files(home)


@pytest.mark.parametrize("there", [True, False])
def test_whatever_cuts_it_off_there_is_a_whole_home_and_the_next_one_finishes(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    after = {**NEW, "credentials.env": b"KEY=old\n"} if there else NEW
    count = None
    last = 0
    while count is None or last <= count:
        place = tmp_path / "place"
        place.mkdir()
        home = _write(place / "home", OLD) if there else place / "home"
        with _crash_at(last or None, monkeypatch) as steps:
            _restore(home, backup)
        if count is None:
            count = steps.count
            assert {"exchange" if there else "rename", "write", "fsync"} <= {*steps.names}
        found = {name: data for name, data in _files(home).items() if name != ".restoring"}
        assert found in (OLD if there else {}, after), last
        # Whoever comes next: the same restore, or a start that knows nothing of it.
        before = _restore(home, backup)
        assert _files(home) == after
        kept = {path.name: _files(path) for path in place.iterdir() if path != home}
        assert not there or (before is not None and OLD in kept.values()), (last, kept)
        assert all(name.startswith("home.before-") for name in kept), (last, kept)
        assert all(files in (OLD, after) for files in kept.values())
        shutil.rmtree(place)
        last += 1
    assert last >= 15


def test_another_backup_is_put_in_place_after_one_that_was_cut_off(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _write(tmp_path / "home", OLD)
    with monkeypatch.context() as patch:
        patch.setattr(swap, "_unmark", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            _restore(home, backup)
    other = tmp_path / "other"
    pack(other, {"memory/memory.md": b"other"})
    _restore(home, other)
    assert (home / "memory/memory.md").read_bytes() == b"other"
    assert _files(tmp_path / f"home.before-{TIME}") == OLD


def test_keys_of_the_backup_are_the_keys(tmp_path: Path) -> None:
    home = _write(tmp_path / "home", OLD)
    pack(tmp_path / "keys", {**NEW, "credentials.env": b"KEY=new\n"})
    _restore(home, tmp_path / "keys")
    assert (home / "credentials.env").read_bytes() == b"KEY=new\n"


def test_what_lies_apart_lies_apart_again(tmp_path: Path, backup: Path) -> None:
    """On a system install some files of the top folder are links into `local/`."""
    home = _write(
        tmp_path / "home", {"memory/x": b"", "local/credentials.env": b"KEY=old\n", "local/prices.toml": b"o"}
    )
    for name in ("credentials.env", "prices.toml"):
        (home / name).symlink_to(f"local/{name}")
    (home / "grants.toml").symlink_to("/etc/passwd")
    (home / "run/owner-loop").mkdir(parents=True)
    _restore(home, backup)
    assert os.readlink(home / "credentials.env") == "local/credentials.env"
    assert (home / "credentials.env").read_bytes() == b"KEY=old\n"
    assert os.readlink(home / "prices.toml") == "local/prices.toml"
    assert (home / "grants.toml").read_bytes() == b"# new\n"
    assert not (home / "grants.toml").is_symlink()
    assert (home / "run/owner-loop").is_dir()


def test_a_backup_that_is_changed_after_it_was_looked_through_changes_nothing(tmp_path: Path) -> None:
    home = _write(tmp_path / "home", OLD)
    made = forge(tmp_path / "x", said({"memory/memory.md": b"one"}), {"home/memory/memory.md": b"two"})
    with Archive(made) as archive, pytest.raises(Fault, match="was changed"):
        swap.put(home, archive, TIME, lambda _: None)
    assert _files(home) == OLD
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "x"]


def test_a_disk_that_refuses_leaves_the_home_as_it_was(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _write(tmp_path / "home", OLD)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for where, name in ((swap, "exchange"), (os, "utime"), (os, "sync")):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, lambda *_, **__: refuse())
            with pytest.raises(OSError, match="No space left"):
                _restore(home, backup)
        assert _files(home) == OLD
        assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "home"]
