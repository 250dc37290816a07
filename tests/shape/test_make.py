"""The two commands a user is told of, and what the shell must not do to a question."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.shape import tree

QUESTIONS = [
    "remember that the launch moved to Thursday",
    "it's 'quoted' and \"quoted\"",
    "costs $5, $(HOME) and ${HOME} and `id`",
    "back\\slash # no comment; no command | no pipe",
    "--help",
    "星期四 · é",
]


def _make(folder: Path, *arguments: str) -> str:
    """`make` in a folder that has its environment already, in which `bxctl` shows its arguments, one a line."""
    script = folder / ".venv" / "bin" / "bxctl"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    script.chmod(0o755)
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(tree.ROOT / name, folder)
    (folder / ".venv" / "ready").touch()
    environ = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    command = ("make", "run", *arguments)
    return subprocess.run(command, cwd=folder, env=environ, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_reaches_bxctl_as_it_is(tmp_path: Path, question: str) -> None:
    assert _make(tmp_path, f"ASK={question}") == f"run\n--\n{question}\n"


def test_without_a_question_a_chat_is_opened(tmp_path: Path) -> None:
    assert _make(tmp_path) == "run\n"


def test_every_target_is_explained() -> None:
    text = (tree.ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z0-9-]+):(.*)", text, re.MULTILINE)
    assert [name for name, rest in targets if "## " not in rest] == []
    assert set(re.findall(r"^\.PHONY: (.*)", text, re.MULTILINE)[0].split()) == {name for name, _ in targets}


def test_the_readme_names_both_commands() -> None:
    text = (tree.ROOT / "README.md").read_text(encoding="utf-8")
    assert "make run" in text
    assert "make test" in text
