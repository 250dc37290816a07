"""`bxctl up` and `bxctl run` over the real daemons: begun, used, restarted, stopped; nothing left running."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bxctl.places import OWNER_ROWS, Box
from bxctl.supervise import run
from bxctl.supervise.model import SMALL
from tests.bxctl import terminal

pytestmark = pytest.mark.e2e

BXCTL = (sys.executable, "-m", "bxctl.cli")


def _environ(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"BOXMAKER_MODEL", "ASK"}}
    return {**kept, "BOXMAKER_HOME": str(home), **more}


def _bxctl(home: Path, *words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        (*BXCTL, *words),
        env=_environ(home, **environ),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=50,
    )


def _processes(home: Path) -> dict[int, str]:
    """The processes whose command line names the home."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(home) in line:
                found[int(entry.name)] = line
    return found


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def _without_model(home: Path) -> None:
    """A home whose model is somewhere else, so that the embedded one need not be loaded."""
    assert _bxctl(home, "init").returncode == 0
    (home / "grants.toml").write_text('[destinations.local]\nbase_url = "http://127.0.0.1:9"\nceiling = "secret"\n')


@contextmanager
def _up(home: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        (*BXCTL, "up", *words), env=_environ(home), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        if "--quiet" in words:
            _until(lambda: all(map(Box(home).answers, OWNER_ROWS)), "the box does not answer")
        else:
            assert process.stdout is not None
            assert any(line.startswith("the box is up: ") for line in process.stdout), "up did not start"
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def _answers(home: Path) -> bool:
    return Box(home).answers("owner-memory")


@pytest.mark.measured
@pytest.mark.model
def test_what_was_told_in_one_run_is_known_in_the_next(home: Path) -> None:
    told = _bxctl(home, "run", "--", "remember that the launch moved to Thursday")
    assert (told.returncode, told.stderr) == (0, f"bxctl: {SMALL}\n")
    assert _processes(home) == {}
    asked = _bxctl(home, "run", ASK="what did I say about the launch?")
    assert asked.returncode == 0
    assert "Thursday" in asked.stdout
    assert _processes(home) == {}
    # The box is not up: memoryd runs for the one question.
    assert re.search(r"^\d{4}-\d\d-\d\d-0001 .* add +memory.md", _bxctl(home, "memory", "log").stdout, re.MULTILINE)
    assert _processes(home) == {}
    with _up(home):
        (edit,) = json.loads(_bxctl(home, "memory", "log", "--json").stdout)["edits"]
        assert edit["after"] == ["the launch moved to Thursday"]
        assert edit["id"] in _bxctl(home, "memory", "log").stdout
        assert _bxctl(home, "memory", "undo", edit["id"]).returncode == 0
        assert _bxctl(home, "verify").returncode == 0
        health = _bxctl(home, "doctor")
        assert (health.returncode, health.stderr) == (0, ""), health.stdout
    assert _processes(home) == {}


@pytest.mark.measured
def test_a_box_that_is_not_up_answers_the_owner(home: Path) -> None:
    _without_model(home)
    for words in (["memory", "log"], ["reindex"], ["grants"], ["decisions"], ["usage"], ["verify"]):
        done = _bxctl(home, *words)
        assert (done.returncode, done.stderr) == (0, ""), words
    (home / "config" / "memoryd.toml").write_text("[memory]\nreviews = true\n")
    failed = _bxctl(home, "memory", "log")
    assert failed.returncode == 1
    assert "bxctl: memoryd cannot start:\n" in failed.stderr
    assert "config/memoryd.toml, line 2: memory.reviews: unknown key" in failed.stderr
    assert _processes(home) == {}


def test_no_file_of_the_folder_in_which_bxctl_is_called_is_run(home: Path, tmp_path: Path) -> None:
    _without_model(home)
    (tmp_path / "x").mkdir()
    for name in ("msgspec", "anyio", "typer", "rich", "structlog", "apsw", "re", "memoryd", "proto", "sitecustomize"):
        (tmp_path / "x" / f"{name}.py").write_text(
            f"open({str(tmp_path / name)!r}, 'w')\nraise ImportError(__file__)\n"
        )
    bxctl = str(Path(sys.executable).with_name("bxctl"))
    environ = {name: value for name, value in _environ(home).items() if not name.startswith("PYTHON")}
    # Each of the three starts daemons in its own way.
    for words in (["memory", "log"], ["usage"], ["run", "hello"]):
        done = subprocess.run(
            (bxctl, *words), env=environ, cwd=tmp_path / "x", capture_output=True, text=True, check=False, timeout=50
        )
        assert "cannot start" not in done.stderr
        assert "start-failed" not in done.stderr
        assert done.returncode == (words[0] == "run"), done.stderr
    assert os.listdir(tmp_path) == ["x"]


def test_the_description_of_the_model_is_not_asked_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "boxmaker_model.py").write_text("print('hostile')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert "hostile" not in run._described()


@pytest.mark.measured
def test_up_starts_a_dead_daemon_again_and_stops_all(home: Path) -> None:
    _without_model(home)
    with _up(home) as up:
        (memoryd,) = [pid for pid, line in _processes(home).items() if "-m memoryd " in line]
        os.kill(memoryd, signal.SIGKILL)
        _until(lambda: memoryd not in _processes(home), "memoryd lives on")
        _until(lambda: _answers(home), "memoryd was not started again")
        up.send_signal(signal.SIGTERM)
        out, _ = up.communicate(timeout=30)
        assert up.returncode == 0
    assert _processes(home) == {}
    assert "memoryd ended (signal 9); it is started again in 0.5 s" in out
    assert re.findall(r"(\w+) +stopped", out) == ["loopd", "egressd", "brokerd", "memoryd", "bxctl"]


def test_a_second_up_is_refused(home: Path) -> None:
    _without_model(home)
    with _up(home, "--quiet") as up:
        second = _bxctl(home, "up")
        sentence = f"bxctl: a box is up already on {home}; to stop it: kill {up.pid}\n"
        assert (second.returncode, second.stdout, second.stderr) == (1, "", sentence)
        up.send_signal(signal.SIGINT)
        out, _ = up.communicate(timeout=30)
    assert (up.returncode, out) == (0, "")


@pytest.mark.measured
def test_up_says_what_is_wrong_with_a_configuration(home: Path) -> None:
    _without_model(home)
    (home / "config" / "brokerd.toml").write_text("[policy]\n\ntimeout = 3\n")
    failed = _bxctl(home, "up", "--quiet")
    assert failed.returncode == 1
    assert "brokerd ended before it was ready (exit code 1)" in failed.stderr
    assert "config/brokerd.toml, line 3: policy.timeout: unknown key" in failed.stderr
    assert _processes(home) == {}


def test_up_without_a_home_says_how_to_make_one(home: Path) -> None:
    failed = _bxctl(home / "x", "up")
    sentence = f"bxctl: there is no box at {home}/x; make one with: bxctl init (runbook: home-missing)\n"
    assert (failed.returncode, failed.stderr) == (1, sentence)


def test_run_uses_a_box_that_is_up(home: Path) -> None:
    _without_model(home)
    with _up(home, "--quiet"):
        before = _processes(home)
        answer = _bxctl(home, "run", "hello", BOXMAKER_MODEL="local/another")
        assert "BOXMAKER_MODEL=local/another is not heeded" in answer.stderr
        assert "local/smollm2-135m-instruct answers new sessions" in answer.stderr
        # Nobody answers at the model's address, and the box stays up.
        assert answer.returncode == 1
        assert "upstream-unreachable" in answer.stderr or "model-unavailable" in answer.stderr
        assert _processes(home).keys() == before.keys()


def test_two_runs_at_once_both_answer(home: Path) -> None:
    _without_model(home)
    command, environ = (*BXCTL, "run", "hello"), _environ(home)
    both = [
        subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for one in both:
        _, said = one.communicate(timeout=50)
        assert "a box is up" not in said
    assert _processes(home) == {}


@pytest.mark.measured
def test_a_run_on_a_terminal_begins_and_ends_the_box(home: Path) -> None:
    _without_model(home)
    with terminal.running("run", environ=_environ(home)) as screen:
        screen.wait_for("starting the box …")
        screen.wait_for("model: local/smollm2-135m-instruct")
        screen.wait_for("a new session begins")
        assert len([line for line in _processes(home).values() if " serve " in line]) == 4
        screen.type("\x04")
        screen.wait_for("stopping the box …")
        assert screen.ended() == 0
    assert _processes(home) == {}


@pytest.mark.parametrize("sent", [signal.SIGHUP, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_nothing(home: Path, sent: signal.Signals) -> None:
    _without_model(home)
    with terminal.running("run", environ=_environ(home)) as screen:
        screen.wait_for("a new session begins")
        os.kill(screen.pid, sent)
        code = screen.ended()
    assert code == (130 if sent is not signal.SIGKILL else -9)
    _until(lambda: _processes(home) == {}, f"left running: {_processes(home)}")
