"""As whom bxctl goes to a home."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from bxctl import owner
from proto.faults import Fault

NOBODY = 65534


@pytest.fixture
def another(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the home's user, who is not the one that runs the test."""
    monkeypatch.setattr(os, "geteuid", lambda: home.stat().st_uid + 1)
    return pwd.getpwuid(home.stat().st_uid).pw_name


def test_on_a_system_install_bxctl_runs_itself_again_as_the_boxs_user(
    home: Path, another: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(owner, "SYSTEM_HOME", home)
    monkeypatch.setattr(os, "execvp", lambda *words: ran.append(words[1]))
    owner.become(home, ["bxctl", "memory", "log"])
    owner.become(home, ["/opt/bxctl", "memory", "log", f"--home={home}"])
    sudo = ["sudo", "-u", another, "--"]
    assert ran == [
        [*sudo, "bxctl", "--home", str(home), "memory", "log"],
        [*sudo, "/opt/bxctl", "memory", "log", f"--home={home}"],
    ]


def test_without_sudo_a_system_install_says_who_may(home: Path, another: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "SYSTEM_HOME", home)
    monkeypatch.setenv("PATH", str(home))
    with pytest.raises(Fault) as raised:
        owner.become(home, ["bxctl", "memory", "log"])
    assert raised.value.code == "peer-refused"
    assert raised.value.message == (
        f"the box at {home} is another user's ({another}), and sudo cannot be run (No such file or directory); "
        "run bxctl as that user, or as root"
    )


def test_elsewhere_another_user_is_told_the_command(home: Path, another: str) -> None:
    with pytest.raises(Fault) as raised:
        owner.become(home, ["/opt/bin/bxctl", "sessions", "-n", "5"])
    sentence = f"the box at {home} is another user's ({another}); as that user: "
    assert raised.value.message == f"{sentence}sudo -u {another} bxctl --home {home} sessions -n 5"


def test_ones_own_home_and_one_that_is_not_there_are_gone_to_as_one_is(home: Path) -> None:
    owner.become(home, ["bxctl"])
    owner.become(home / "none", ["bxctl"])


def test_a_home_of_nobody_is_named(home: Path, another: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(Fault, match=r"belongs to a user that is not known here") as raised:
        owner.become(home, ["bxctl"])
    assert raised.value.code == "home-missing"


def test_root_becomes_the_owner_before_anything_else(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[object, ...]] = []
    ada = pwd.struct_passwd(("ada", "x", 4711, 4712, "", "/home/ada", "/bin/sh"))
    monkeypatch.setattr(owner, "_owner", lambda *_: ada)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name in ("initgroups", "setgid", "setuid"):
        monkeypatch.setattr(os, name, lambda *words, name=name: done.append((name, *words)))
    for name in ("HOME", "USER", "LOGNAME", "BOXMAKER_HOME"):
        monkeypatch.setenv(name, "root's")
    monkeypatch.setenv("XDG_DATA_HOME", "/root/x")
    owner.become(home, ["bxctl"])
    assert done == [("initgroups", "ada", 4712), ("setgid", 4712), ("setuid", 4711)]
    assert (os.environ["HOME"], os.environ["USER"]) == ("/home/ada", "ada")
    assert "XDG_DATA_HOME" not in os.environ


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_root_leaves_nothing_of_its_own_in_anothers_home(home: Path) -> None:
    os.chown(home, NOBODY, NOBODY)
    environ = {**os.environ, "BOXMAKER_HOME": str(home)}
    done = subprocess.run(
        (sys.executable, "-m", "bxctl.cli", "init"), env=environ, capture_output=True, text=True, check=False
    )
    # Where the interpreter is root's alone, nothing is made at all.
    assert done.returncode == 0 or "who may not run" in done.stderr
    assert {path.lstat().st_uid for path in [home, *home.rglob("*")]} == {NOBODY}
