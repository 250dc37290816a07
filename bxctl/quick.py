"""The commands of memory without typer, for a start within a few times that of the interpreter itself.

Only a plain spelling is taken; whatever else is on the line, its help and its mistakes among it, is typer's.
"""

from pathlib import Path
from typing import Final, NamedTuple

_VALUES: Final = ("--home", "--memory-socket")
_MOST_DIGITS: Final = 18
"""What a number on the wire holds in any case."""


class Line(NamedTuple):
    """A command line that was understood: the words that are no options, and the options."""

    words: tuple[str, ...]
    home: str | None
    memory_socket: Path | None
    json: bool


def run(argv: list[str]) -> int | None:
    """Do what the line says and give the exit code; None when the line is typer's."""
    line = read(argv)
    if line is None or line.words[:1] not in (("memory",), ("reindex",)):
        return None
    from bxctl import edits, places

    box = places.find(line.home, line.memory_socket)
    match line.words:
        case ("reindex",):
            return edits.reindex(box, json=line.json)
        case ("memory", "log"):
            return edits.log(box, None, json=line.json)
        case ("memory", "log", last) if last.isascii() and last.isdigit() and len(last) <= _MOST_DIGITS:
            return edits.log(box, int(last), json=line.json)
        case ("memory", "pending"):
            return edits.pending(box, json=line.json)
        case ("memory", "show"):
            return edits.show(box, json=line.json)
        case ("memory", "undo" | "accept" | "reject" as command, edit):
            return edits.change(box, command, edit, json=line.json)
        case _:
            return None


def read(argv: list[str]) -> Line | None:
    """The parts of a plain line; None when there is anything in it that is not known here."""
    words: list[str] = []
    values: dict[str, str] = {}
    json = False
    waiting = iter(argv)
    for argument in waiting:
        name, equals, value = argument.partition("=")
        if name in _VALUES and name not in values:
            values[name] = value if equals else next(waiting, "")
            if not values[name]:
                return None
        elif argument == "--json":
            json = True
        elif argument.startswith("-"):
            return None
        else:
            words.append(argument)
    socket = values.get("--memory-socket")
    return Line(tuple(words), values.get("--home"), Path(socket) if socket else None, json)
