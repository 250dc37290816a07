"""`bxctl restore`: who may, what is stopped first, what is told; the exchange itself is tested beside it."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bxctl.archive import swap
from bxctl.commands import restore
from bxctl.commands.init import make
from bxctl.places import Box
from bxctl.systemd.units import passive
from proto.messages.wire import Ping
from tests.bxctl.archive.making import MADE, pack
from tests.bxctl.conftest import Bxctl
from tests.bxctl.fakes import Fakes

FILES = {"memory/memory.md": b"new", "grants.toml": b"", "config/loopd.toml": b""}


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    pack(tmp_path / "x", FILES)
    return tmp_path / "x"


@pytest.fixture
def made(home: Path) -> Path:
    make(Box(home), "Ada", "dom-me")
    (home / "memory").mkdir()
    (home / "memory/memory.md").write_bytes(b"old")
    return home


def _befores(home: Path) -> list[Path]:
    return sorted(home.parent.glob(f"{home.name}.before-*"))


@pytest.fixture(autouse=True)
def no_leftovers(home: Path) -> object:
    yield
    import shutil

    for path in home.parent.glob(f"{home.name}.*"):
        shutil.rmtree(path)


def test_a_home_is_put_back_and_the_owner_is_told(bxctl: Bxctl, made: Path, backup: Path) -> None:
    result = bxctl("restore", str(backup))
    (before,) = _befores(made)
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        f"{made} is as it was at {MADE} (UTC)\n"
        f"what was there is in {before}; remove it when you miss nothing\n"
        "start it with: bxctl up\n"
    )
    assert (made / "memory/memory.md").read_bytes() == b"new"
    assert (before / "memory/memory.md").read_bytes() == b"old"


def test_for_scripts(bxctl: Bxctl, made: Path, backup: Path) -> None:
    told = bxctl("restore", str(backup), "--json").json
    assert told == {"home": str(made), "before": str(_befores(made)[0]), "made": MADE, "files": len(FILES)}


def test_where_there_is_no_home_one_is_made(bxctl: Bxctl, home: Path, backup: Path) -> None:
    home.rmdir()
    result = bxctl("restore", str(backup), "--json")
    assert (result.code, result.json["before"]) == (0, None)
    assert (home / "memory/memory.md").read_bytes() == b"new"


def test_a_system_install_is_made_before_it_is_restored(
    bxctl: Bxctl, home: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.rmdir()
    monkeypatch.setattr(restore, "SYSTEM_HOME", home)
    result = bxctl("restore", str(backup))
    assert result.code == 1
    assert f"there is no box at {home} yet; sudo bxctl install makes it" in result.err
    assert not home.exists()
    home.mkdir()


def test_a_home_that_is_a_link_stays_one(bxctl: Bxctl, made: Path, backup: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(made)
    assert bxctl("--home", str(link), "restore", str(backup)).code == 0
    assert link.is_symlink()
    assert (link / "memory/memory.md").read_bytes() == b"new"


def test_a_daemon_that_nobody_stops_is_in_the_way(bxctl: Bxctl, made: Path, fakes: Fakes, backup: Path) -> None:
    with fakes.up("owner-broker").serving():
        result = bxctl("restore", str(backup))
    assert result.code == 1
    assert "brokerd answers at " in result.err
    assert Ping not in fakes.asked
    assert (made / "memory/memory.md").read_bytes() == b"old"
    assert _befores(made) == []


def test_who_holds_the_home_is_stopped_first(bxctl: Bxctl, made: Path, backup: Path) -> None:
    holds = (
        "import signal, sys; from pathlib import Path; from bxctl.supervise.lock import only_one\n"
        f"home = Path({str(made)!r})\n"
        "with only_one(home, home / 'state/bxctl'):\n"
        "    print('held', flush=True); signal.sigwait([signal.SIGTERM])\n"
    )
    with subprocess.Popen([sys.executable, "-c", holds], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        result = bxctl("restore", str(backup))
        assert process.wait(10) in {0, -signal.SIGTERM}
    assert result.code == 0
    assert f"stopping the box (process {process.pid}) …\n" in result.out


@pytest.mark.parametrize("flavour", ["system", "user"])
def test_units_are_stopped_and_the_owner_is_told_how_to_start_them(
    bxctl: Bxctl, made: Path, backup: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flavour: str
) -> None:
    script = tmp_path / "bin/systemctl"
    script.parent.mkdir()
    # As systemd: a target is stopped at once, and a service when it has ended.
    script.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\ncd {tmp_path}\n'
        'case "$*" in *show*) if [ -e stopped ]; then cat stopped; else echo active; fi;; *) echo "$STATES" > stopped; esac\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("STATES", "inactive inactive inactive")
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    if flavour == "system":
        monkeypatch.setattr(restore, "SYSTEM_HOME", made)
    else:
        monkeypatch.setattr(restore, "default_home", lambda *_, **__: made)
    result = bxctl("restore", str(backup))
    words = "" if flavour == "system" else "--user "
    assert result.code == 0
    asked = (tmp_path / "asked").read_text().splitlines()
    assert f"{words}stop boxmaker.target {' '.join(passive())}" in asked
    assert f"start it with: systemctl {words}start boxmaker.target\n" in result.out
    (tmp_path / "stopped").unlink()
    monkeypatch.setenv("STATES", "inactive deactivating inactive")
    (made / "memory/memory.md").write_bytes(b"still written")
    result = bxctl("restore", str(backup))
    assert result.code == 1
    assert f"boxmaker-memoryd.service does not end; see: systemctl {words}status boxmaker-memoryd.service" in result.err
    assert (made / "memory/memory.md").read_bytes() == b"still written"


def test_one_that_was_cut_off_is_finished(
    bxctl: Bxctl, made: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(swap, "_unmark", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        assert bxctl("restore", str(backup)).code == 130
    before = _befores(made)
    (made / "memory/memory.md").write_bytes(b"written since")
    result = bxctl("restore", str(backup))
    assert result.code == 0
    assert str(before[0]) in result.out
    assert _befores(made) == before
    assert (made / "memory/memory.md").read_bytes() == b"written since"


def test_one_that_was_cut_off_and_whose_box_was_at_work_since_is_done_again(
    bxctl: Bxctl, made: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(swap, "_unmark", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        assert bxctl("restore", str(backup)).code == 130
    (made / "memory/memory.md").write_bytes(b"written since")
    (made / "index/fts.sqlite3").touch()
    assert bxctl("restore", str(backup)).code == 0
    assert (made / "memory/memory.md").read_bytes() == b"new"
    assert len(_befores(made)) == 2


def test_what_the_disk_refuses_is_told(bxctl: Bxctl, made: Path, backup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(one: Path, other: Path) -> None:
        raise OSError(16, "Device or resource busy", str(other))

    monkeypatch.setattr(swap, "exchange", refuse)
    result = bxctl("restore", str(backup))
    assert result.code == 1
    assert f"{made}: Device or resource busy; " in result.err
    assert "(runbook: restore-failed)" in result.err
    assert (made / "memory/memory.md").read_bytes() == b"old"


def test_a_disk_without_room_is_not_begun_with(
    bxctl: Bxctl, made: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "_ROOM_BYTES", 1 << 60)
    result = bxctl("restore", str(backup))
    assert (result.code, _befores(made)) == (1, [])
    assert f"{made.parent} has room for " in result.err


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a home to another user")
def test_root_leaves_a_home_to_its_user(bxctl: Bxctl, made: Path, backup: Path) -> None:
    for path in [made, *made.rglob("*")]:
        os.chown(path, 4711, 4711, follow_symlinks=False)
    assert bxctl("restore", str(backup)).code == 0
    mine = [path for path in [made, *made.rglob("*")] if (path.stat().st_uid, path.stat().st_gid) != (4711, 4711)]
    assert mine == []
    (before,) = _befores(made)
    state = before.stat()
    # Daemons run as the home's user and see what lies beside it; keys and memory of the old home are not theirs to see.
    assert (state.st_uid, state.st_gid, state.st_mode & 0o777) == (0, 0, 0o700)
    assert (before / "memory/memory.md").stat().st_uid == 4711


def test_another_users_home_is_refused(bxctl: Bxctl, made: Path, backup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4712)
    result = bxctl("restore", str(backup))
    assert result.code == 1
    assert "is another user's; run the same command by sudo" in result.err


def test_a_folder_that_is_not_ones_own_is_refused_before_anything(
    bxctl: Bxctl, made: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a system install, where the home is the box's user's and the folder above it is root's."""
    monkeypatch.setattr(os, "access", lambda path, _: path != made.parent)
    result = bxctl("restore", str(backup))
    assert (result.code, result.out) == (1, "")
    assert f"you may not write into {made.parent}; run the same command by sudo" in result.err


@pytest.mark.skipif(os.geteuid() != 0, reason="is about what root does in another user's home")
@pytest.mark.parametrize("planted", ["folder", "lock"])
def test_root_follows_no_link_that_the_box_s_user_made(
    bxctl: Bxctl, made: Path, backup: Path, tmp_path: Path, planted: str
) -> None:
    """Whoever has the box's user must not get root's files by waiting for a restore."""
    target = tmp_path / "etc"
    target.mkdir(mode=0o700)
    (target / "up.lock").write_text("root's own")
    state = made / "state"
    state.mkdir(exist_ok=True)
    shutil.rmtree(state / "bxctl", ignore_errors=True)
    if planted == "folder":
        (state / "bxctl").symlink_to(target)
    else:
        (state / "bxctl").mkdir()
        (state / "bxctl" / "up.lock").symlink_to(target / "up.lock")
    for path in [made, *made.rglob("*")]:
        os.chown(path, 4711, 4711, follow_symlinks=False)
    result = bxctl("restore", str(backup))
    assert result.code == 1
    assert (target / "up.lock").read_text() == "root's own"
    assert [path.stat().st_uid for path in (target, target / "up.lock")] == [0, 0]
    assert (made / "memory/memory.md").read_bytes() == b"old"
