"""Calling bxctl as a person does, in the process of the test."""

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bxctl import cli, places
from tests.bxctl.fakes import Fakes


class Result(NamedTuple):
    """What a command did: its exit code, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output as JSON."""
        return json.loads(self.out)


Bxctl = Callable[..., Result]


@pytest.fixture
def bxctl(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bxctl:
    """Runs a command line on the test's home."""
    monkeypatch.setenv("BOXMAKER_HOME", str(home))
    for name in ("ASK", "BOXMAKER_MODEL"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> Result:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["bxctl", *words])
        places.name(None)
        code = cli.main()
        gc.unfreeze()  # this process goes on
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def fakes(home: Path) -> Fakes:
    """The fake daemons of the test's home, not serving yet."""
    return Fakes(home)
