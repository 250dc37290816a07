"""Where the box is, and as whom bxctl goes there."""

import os
import pwd
from pathlib import Path

import pytest

from bxctl import places
from proto.faults import Fault


def test_the_home_is_the_options_then_the_environments_then_the_users(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    monkeypatch.setenv("BOXMAKER_HOME", str(home / "b"))
    assert places.find(str(home / "a")).home == home / "a"
    assert places.find(None).home == home / "b"
    monkeypatch.delenv("BOXMAKER_HOME")
    (home / "boxmaker").mkdir()
    assert places.find(None).home == home / "boxmaker"


def test_sockets_are_the_homes_unless_they_are_named(home: Path) -> None:
    box = places.Box(home, memory_socket=Path("/m.sock"), admin_socket=Path("/b.sock"))
    assert box.socket("owner-memory") == Path("/m.sock")
    assert box.socket("owner-broker") == Path("/b.sock")
    assert box.socket("owner-loop") == home / "run/owner-loop/admin.sock"


def test_on_a_system_install_bxctl_runs_itself_again_as_the_boxs_user(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "SYSTEM_HOME", home)
    monkeypatch.setattr(os, "geteuid", lambda: home.stat().st_uid + 1)
    name = pwd.getpwuid(home.stat().st_uid).pw_name
    command = ["bxctl", "memory", "log"]
    assert places.as_owner(home, command) == ["sudo", "-u", name, "--", *command]
    assert places.as_owner(home / "elsewhere", command) is None


def test_as_that_user_it_stays(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "SYSTEM_HOME", home)
    assert places.as_owner(home, ["bxctl"]) is None


def test_a_system_home_of_nobody_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(places, "SYSTEM_HOME", home)
    monkeypatch.setattr(os, "geteuid", lambda: home.stat().st_uid + 1)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(Fault, match=r"belongs to a user that is not known here") as raised:
        places.as_owner(home, ["bxctl"])
    assert raised.value.code == "home-missing"
