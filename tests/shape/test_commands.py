"""Every command of bxctl that a page tells a person to type is one that there is."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest
import typer.main

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


def _parsed(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    """Follow a command line to its verb.

    Raises:
        click.UsageError: there is no such command, option or argument.

    """
    context = command.make_context(command.name or "bxctl", words, parent=parent)
    if isinstance(command, click.Group) and (rest := [*context._protected_args, *context.args]):
        _, inner, words = command.resolve_command(context, rest)
        assert inner is not None
        _parsed(inner, words, context)


@pytest.mark.parametrize(("page", "line"), sorted(set(_commands())))
def test_a_command_of_a_page_is_one_that_there_is(page: str, line: str) -> None:
    words = shlex.split(line.partition(" < ")[0], comments=True)[1:]
    try:
        _parsed(typer.main.get_command(build()), [_STANDS_FOR.get(word, word) for word in words])
    except click.MissingParameter:
        # It is only named there.
        return
    except click.UsageError as error:
        pytest.fail(f"{page}: {line}: {error.format_message()}")
    except click.exceptions.Exit as ended:
        assert ended.exit_code == 0


def test_there_are_such_commands() -> None:
    assert len(set(_commands())) > 40
