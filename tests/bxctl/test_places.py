"""Where the box is, and as whom bxctl goes there."""

from pathlib import Path

import pytest

from bxctl import places


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


def test_a_command_names_a_home_that_is_not_the_default(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOXMAKER_HOME", str(home))
    assert places.Box(home).command("run") == "bxctl run"
    assert places.Box(home / "my box").command("undo", "$x") == f"bxctl --home '{home}/my box' undo '$x'"
