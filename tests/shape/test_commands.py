"""Every command of bxctl that a page tells a person to type is one that there is."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.core import TyperGroup
from typer.exceptions import TyperException

from bxctl.app import build
from tests.shape import tree

PAGES = sorted([*tree.ROOT.glob("*.md"), *(tree.ROOT / "docs").glob("*.md")])
_TYPED = re.compile(r"^ *(?:sudo )?(bxctl [a-z].*)$", re.MULTILINE)
_NAMED = re.compile(r"`(?:sudo )?(bxctl [a-z][^`]*)`")
_STANDS_FOR = {"mm-…": f"mm-{'a' * 26}", "<id>": "chat-20260924-210203-0a1b2c"}


def _commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in (_TYPED, _NAMED):
            yield from ((page.name, " ".join(line.split())) for line in found.findall(text))


def _parsed(command: Any, words: list[str], parent: Any = None) -> None:
    """Follow a command line to its verb.

    Raises:
        TyperException: there is no such command, option or argument.

    """
    context = command.make_context(command.name or "bxctl", words, parent=parent)
    if isinstance(command, TyperGroup) and (rest := [*context._protected_args, *context.args]):
        _, inner, words = command.resolve_command(context, rest)
        _parsed(inner, words, context)


def _problem(line: str) -> str | None:
    words = shlex.split(line.partition(" < ")[0], comments=True)[1:]
    try:
        _parsed(typer.main.get_command(build()), [_STANDS_FOR.get(word, word) for word in words])
    except typer.Exit:
        return None
    except TyperException as error:
        # A command without what it needs is only named there.
        return None if type(error).__name__ in {"MissingParameter", "NoArgsIsHelpError"} else repr(error)
    return None


@pytest.mark.parametrize(("page", "line"), sorted(set(_commands())))
def test_a_command_of_a_page_is_one_that_there_is(page: str, line: str) -> None:
    assert _problem(line) is None, page


@pytest.mark.parametrize(
    "line", ["bxctl sesions", "bxctl memory lgo 3", "bxctl backup --verfy x", "bxctl sessions show x"]
)
def test_what_there_is_not_is_found_out(line: str) -> None:
    assert _problem(line)
