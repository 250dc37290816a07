"""The page of `bxctl --help`, the help of every command, completion, and what a quick start may not import."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from bxctl import app, contents, exits
from tests.bxctl.conftest import Bxctl

HEAVY = {"typer", "rich", "pydantic", "anyio", "asyncio", "structlog", "prompt_toolkit", "argparse", "subprocess"}


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name)


COMMANDS = sorted(_commands(typer.main.get_command(app.build())))


def test_the_page_names_every_command_and_no_other() -> None:
    listed = {name for group in contents.GROUPS for name in group.commands}
    assert {path[0] for path in COMMANDS} == listed


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_the_page_is_printed(bxctl: Bxctl, words: list[str]) -> None:
    result = bxctl(*words)
    assert (result.code, result.out) == (0, contents.page())
    assert all(len(line) <= 100 for line in result.out.splitlines())


def test_the_page_lists_the_exit_codes(bxctl: Bxctl) -> None:
    for code, meaning in exits.MEANINGS.items():
        assert f"  {code:<4} {meaning}\n" in bxctl("--help").out


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_an_example(bxctl: Bxctl, path: tuple[str, ...]) -> None:
    result = bxctl(*path, "--help")
    assert result.code == 0
    assert f"Example: bxctl {' '.join(path)}" in " ".join(result.out.split())


@pytest.mark.parametrize("group", ["memory", "context", "credential", "policy", "prices"])
def test_no_line_of_a_group_is_cut(bxctl: Bxctl, group: str) -> None:
    assert "..." not in bxctl(group, "--help").out.split("Commands:")[1]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_no_help_names_a_number_that_nobody_types(bxctl: Bxctl, path: tuple[str, ...]) -> None:
    assert "99999" not in bxctl(*path, "--help").out


@pytest.mark.parametrize("words", [["sessions", "-n", "9" * 30], ["decisions", "9" * 30], ["memory", "log", "9" * 30]])
def test_a_number_that_is_larger_than_any_list_is_the_whole_list(bxctl: Bxctl, words: list[str]) -> None:
    result = bxctl(*words)
    assert (result.code, "does not answer" in result.err) == (3, True)


@pytest.mark.parametrize("name", ["run", "up"])
def test_up_and_run_say_how_to_name_a_provider(bxctl: Bxctl, name: str) -> None:
    out = bxctl(name, "--help").out
    assert "OPENAI_API_KEY=… BOXMAKER_MODEL=openai/gpt-5 bxctl run    (or: make run)" in out
    assert '    destination = "openai"\n    name = "gpt-5"\n' in out


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_scripts_have_json_but_where_a_person_talks_or_watches(bxctl: Bxctl, path: tuple[str, ...]) -> None:
    assert ("--json" in bxctl(*path, "--help").out) == (path[0] not in {"run", "up"})


@pytest.mark.parametrize(
    ("words", "expected"), [("bxctl me", "memory"), ("bxctl memory un", "undo"), ("bxctl chat --ses", "--session")]
)
def test_the_shell_completes(words: str, expected: str) -> None:
    environ = {
        **os.environ,
        "_BXCTL_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    command = [sys.executable, "-m", "bxctl.cli"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert expected in done.stdout.split()


@pytest.mark.parametrize(
    ("words", "code", "may"),
    [(["--help"], 0, set()), (["memory", "log"], 3, {"msgspec"}), (["reindex", "--json"], 3, {"msgspec"})],
)
def test_a_quick_start_imports_nothing_heavy(home: Path, words: list[str], code: int, may: set[str]) -> None:
    script = (
        "import sys; before = set(sys.modules); from bxctl import cli; "
        f"sys.argv = ['bxctl', *{words!r}]; code = cli.main(); "
        "print(code, *sorted(name for name in set(sys.modules) - before if '.' not in name), file=sys.stderr)"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**environ, "BOXMAKER_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    code_said, *modules = done.stderr.splitlines()[-1].split()
    assert int(code_said) == code
    assert HEAVY & set(modules) == set()
    assert {"msgspec", "msgpack"} & set(modules) == (may and {"msgspec", "msgpack"})
