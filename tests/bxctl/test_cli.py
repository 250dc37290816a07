"""The entry: whatever happens is a sentence and an exit code."""

import importlib.metadata
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bxctl import edits
from proto.messages import loop
from proto.messages.memory import MemoryAdmin, MemoryAdminReply
from tests.bxctl.conftest import Bxctl
from tests.bxctl.fakes import Fakes


def _raising(*_: object, **__: object) -> int:
    raise ZeroDivisionError("of\nnothing")


def test_what_nobody_expected_is_one_sentence(bxctl: Bxctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edits, "log", _raising)
    result = bxctl("memory", "log")
    sentence = "bxctl: something unexpected went wrong: ZeroDivisionError: of nothing; BOXMAKER_DEBUG=1 shows where\n"
    assert (result.code, result.out, result.err) == (1, "", sentence)
    monkeypatch.setenv("BOXMAKER_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        bxctl("memory", "log")


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_standard_input_that_is_no_text(
    bxctl: Bxctl, fakes: Fakes, monkeypatch: pytest.MonkeyPatch, errors: str
) -> None:
    fakes.up("owner-loop").answer(
        "owner-loop", loop.Chat, loop.ChatDone(session="chat-1", text="", input_tokens=None, output_tokens=None)
    )
    with fakes.serving():
        for words in (["chat"], ["chat", "-"]):
            text = io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"), encoding="utf-8", errors=errors)
            monkeypatch.setattr(sys, "stdin", text)
            result = bxctl(*words)
            assert (result.code, result.out) == (2, "")
            assert "is not UTF-8 text" in result.err


@pytest.mark.parametrize("words", [["memory", "log"], ["memory", "--help"]])
def test_a_full_disk_under_standard_output(fakes: Fakes, home: Path, words: list[str]) -> None:
    fakes.answer("owner-memory", MemoryAdmin, MemoryAdminReply(text="an edit"))
    with fakes.serving(), open("/dev/full", "w") as full:
        environ = {**os.environ, "BOXMAKER_HOME": str(home)}
        command = (sys.executable, "-m", "bxctl.cli", *words)
        done = subprocess.run(command, env=environ, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("words", [["memory", "log"], ["chat", "hello"], ["sessions"]])
def test_a_home_that_is_not_there_is_said_so_and_not_made(
    bxctl: Bxctl, home: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("BOXMAKER_HOME", str(home / "none"))
    result = bxctl(*words)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"bxctl: there is no box at {home}/none; make one with: bxctl init")
    assert not (home / "none").exists()


def test_the_version(bxctl: Bxctl) -> None:
    assert bxctl("--version").out == f"bxctl {importlib.metadata.version('boxmaker')}\n"
