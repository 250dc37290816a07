"""The format of the home: a step is done once, whatever cuts it off; a newer home is refused; a copy is kept."""

import os
from pathlib import Path

import pytest

from proto import home as homes
from proto.faults import Fault
from proto.role import durable, migration
from proto.role.migration import Step, held
from tests.memoryd.crash import crash_at

DAEMON = "loopd"
OLD, NEW = "state/loopd/old", "state/loopd/new"


def _bring(home: Path) -> None:
    if not (home / OLD).is_dir():
        return
    (home / NEW).mkdir(exist_ok=True)
    for path in sorted((home / OLD).iterdir()):
        os.rename(path, home / NEW / path.name)
    os.rmdir(home / OLD)


STEPS = {0: Step((OLD,), _bring)}


def _old_home(home: Path) -> Path:
    (home / OLD).mkdir(parents=True)
    for name in ("a", "b"):
        (home / OLD / name).write_text(name)
    (home / "state" / DAEMON / migration.FILE).write_text("0\n")
    return home


def _texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def _bring_up(home: Path) -> None:
    with held(home, DAEMON, STEPS):
        pass


def test_an_older_home_is_brought_up_to_date_and_a_copy_is_kept(home: Path) -> None:
    _bring_up(_old_home(home))
    assert migration.found(home, DAEMON) == homes.FORMAT
    assert not (home / OLD).exists()
    assert _texts(home / NEW) == _texts(home / "state" / DAEMON / "before-0" / OLD) == {"a": "a", "b": "b"}


def test_it_is_done_once(home: Path) -> None:
    _bring_up(_old_home(home))
    (home / OLD).mkdir()
    _bring_up(home)
    assert (home / OLD).exists()


def test_a_home_without_a_number_is_of_the_first_format(home: Path) -> None:
    _bring_up(home)
    assert migration.found(home, DAEMON) == homes.FORMAT
    assert not (home / "state" / DAEMON / "before-0").exists()


def test_whatever_cuts_it_off_the_next_start_finishes(home: Path) -> None:
    with crash_at(None) as whole:
        _bring_up(_old_home(home / "whole"))
    for last in range(1, whole.count + 1):
        box = _old_home(home / str(last))
        with crash_at(last):
            _bring_up(box)
        kept = {**_texts(box / OLD)} if (box / OLD).exists() else {}
        kept |= _texts(box / NEW) if (box / NEW).exists() else {}
        assert kept == {"a": "a", "b": "b"}
        _bring_up(box)
        assert migration.found(box, DAEMON) == homes.FORMAT
        assert _texts(box / NEW) == _texts(box / "state" / DAEMON / "before-0" / OLD) == {"a": "a", "b": "b"}


def test_a_newer_home_is_refused_and_left_as_it_is(home: Path) -> None:
    path = home / "state" / DAEMON / migration.FILE
    path.parent.mkdir(parents=True)
    path.write_text("2\n")
    with pytest.raises(Fault) as refused:
        _bring_up(home)
    assert (refused.value.code, refused.value.runbook) == ("home-newer", "home-newer")
    assert str(refused.value).startswith(f"what loopd keeps in {home} is of format 2, and this boxmaker knows 1;")
    assert path.read_text() == "2\n"


@pytest.mark.parametrize("said", ["", "one", "-1", "1.0"])
def test_what_is_no_number_is_told_of(home: Path, said: str) -> None:
    path = home / "state" / DAEMON / migration.FILE
    path.parent.mkdir(parents=True)
    path.write_text(said)
    with pytest.raises(Fault, match="should hold the number") as refused:
        _bring_up(home)
    assert refused.value.code == "start-failed"


def test_nothing_is_migrated_beneath_a_daemon_at_work(home: Path) -> None:
    with held(home, DAEMON), held(home, DAEMON):  # a second one of today's may look, and ends at the sockets
        _old_home(home)
        with pytest.raises(Fault) as refused:
            _bring_up(home)
    assert refused.value.code == "socket-in-use"
    assert (home / OLD).exists()


def test_a_disk_that_refuses_is_told_of(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _old_home(home)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "there")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "replace", full)
        with pytest.raises(Fault, match="there: No space left on device; what loopd keeps is not up to date yet"):
            _bring_up(home)
    _bring_up(home)
    assert _texts(home / NEW) == {"a": "a", "b": "b"}
