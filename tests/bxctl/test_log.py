"""One readable log: what a line of a daemon becomes, on a terminal and in the file; and the lock beside it."""

import io
import json
import os
import unicodedata
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bxctl.supervise.lock import is_held, only_one
from bxctl.supervise.log import Entry, Log, read
from proto.faults import Fault

TIME = "2026-09-24T21:02:03.123456Z"


def test_a_line_of_json_becomes_words() -> None:
    line = {
        "daemon": "memoryd",
        "time": TIME,
        "level": "warning",
        "event": "left-out",
        "rule": 4,
        "why": "a b",
        "x": "y",
    }
    assert read(json.dumps(line).encode()) == Entry("21:02:03", 'left-out rule=4 why="a b" x=y', "warning")


def test_a_fault_is_its_sentence() -> None:
    line = {"event": "start-failed", "code": "x", "message": "a: b (runbook: y)", "runbook": "y", "time": TIME}
    assert read(json.dumps(line).encode()).text == "start-failed: a: b (runbook: y) code=x"


def test_a_line_that_says_nothing_of_its_entry_names_it_at_its_end() -> None:
    line = {"event": "mattermost-waits", "what": "users/me", "runbook": "mattermost-refused", "time": TIME}
    assert read(json.dumps(line).encode()).text == "mattermost-waits what=users/me (runbook: mattermost-refused)"


def test_a_traceback_stands_below_its_line() -> None:
    line = {"time": TIME, "event": "request-failed", "level": "error", "exception": "Traceback\n  x\nE: \x1b[2J"}
    assert read(json.dumps(line).encode()).below == ("Traceback", "  x", "E: \\u{1b}[2J")


def test_what_is_no_json_is_shown_as_it_came() -> None:
    entry = read(b"Fatal Python error \x1b[31m\xff")
    assert (entry.text, entry.level) == ("Fatal Python error \\u{1b}[31m\ufffd", "info")


@given(st.binary(max_size=80) | st.dictionaries(st.text(max_size=8), st.text(max_size=8)).map(msgspec.json.encode))
def test_no_line_can_begin_another_or_move_the_cursor(line: bytes) -> None:
    entry = read(line)
    for text in (entry.text, entry.clock, *entry.below):
        assert {unicodedata.category(char) for char in text} & {"Cc", "Cf", "Zl", "Zp", "Cs"} == set()


def test_the_terminal_and_the_file_have_every_line(home: Path) -> None:
    terminal = io.StringIO()
    log = Log(home / "up.log", terminal, colours=False)
    log.entry("memoryd", Entry("21:02:03", "ready", below=("more",)))
    log.close()
    expected = "21:02:03 memoryd        ready\n    more\n"
    assert terminal.getvalue() == expected
    assert (home / "up.log").read_text() == expected
    assert (home / "up.log").stat().st_mode & 0o777 == 0o600


def test_colours_are_for_the_terminal_alone(home: Path) -> None:
    terminal = io.StringIO()
    log = Log(home / "up.log", terminal, colours=True)
    log.entry("memoryd", Entry("21:02:03", "it broke", "error"))
    log.close()
    assert "\x1b[31mit broke\x1b[0m" in terminal.getvalue()
    assert "\x1b" not in (home / "up.log").read_text()


def test_a_terminal_that_has_gone_stops_nothing(home: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    terminal = os.fdopen(writer, "w")
    log = Log(home / "up.log", terminal, colours=False)
    log.own("one")
    log.own("two")
    log.close()
    with pytest.raises(BrokenPipeError):
        terminal.close()
    assert len((home / "up.log").read_text().splitlines()) == 2


def test_a_long_file_is_set_aside(home: Path) -> None:
    with (home / "up.log").open("wb") as file:
        file.truncate((8 << 20) + 1)
    Log(home / "up.log", None, colours=False).close()
    assert (home / "up.log").stat().st_size == 0
    assert (home / "up.log.1").stat().st_size == (8 << 20) + 1


def test_a_second_up_is_refused_with_the_process_to_stop(home: Path) -> None:
    folder = home / "state" / "bxctl"
    assert not is_held(folder)
    with only_one(home, folder):
        assert is_held(folder)
        with pytest.raises(Fault) as raised, only_one(home, folder):
            pass
    assert str(raised.value) == f"a box is up already on {home}; to stop it: kill {os.getpid()}"
    assert not is_held(folder)
