"""`bxctl memory …` and `bxctl reindex`."""

from typing import Annotated

import typer

from bxctl import edits
from bxctl.options import Home, Json, MemorySocket, at_most
from bxctl.places import find

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Edit = Annotated[str, typer.Argument(metavar="ID", help="The edit's id, YYYY-MM-DD-NNNN")]


@group.command()
def log(
    last: Annotated[int | None, typer.Argument(metavar="[N]", min=0, help="How many [default: 10]")] = None,
    home: Home = None,
    memory_socket: MemorySocket = None,
    json: Json = False,
) -> int:
    """List the last edits of memory, newest last.

    Example: bxctl memory log 20
    """
    return edits.log(find(home, memory_socket), at_most(last), json=json)


@group.command()
def undo(edit: Edit, home: Home = None, memory_socket: MemorySocket = None, json: Json = False) -> int:
    """Take an edit back, if it is the latest of its file; the undo is an edit too.

    Example: bxctl memory undo 2026-09-24-0007
    """
    return edits.change(find(home, memory_socket), "undo", edit, json=json)


@group.command()
def pending(home: Home = None, memory_socket: MemorySocket = None, json: Json = False) -> int:
    """List the writes that wait for you, when review is on ([memory] review in config/memoryd.toml).

    Example: bxctl memory pending
    """
    return edits.pending(find(home, memory_socket), json=json)


@group.command()
def accept(edit: Edit, home: Home = None, memory_socket: MemorySocket = None, json: Json = False) -> int:
    """Apply a waiting write, with the same checks, to the file as it is now.

    Example: bxctl memory accept 2026-09-24-0007
    """
    return edits.change(find(home, memory_socket), "accept", edit, json=json)


@group.command()
def reject(edit: Edit, home: Home = None, memory_socket: MemorySocket = None, json: Json = False) -> int:
    """Discard a waiting write.

    Example: bxctl memory reject 2026-09-24-0007
    """
    return edits.change(find(home, memory_socket), "reject", edit, json=json)


@group.command()
def show(home: Home = None, memory_socket: MemorySocket = None, json: Json = False) -> int:
    """Show what a new session would be told, what was left out of it and by which rule, and the index.

    Example: bxctl memory show
    """
    return edits.show(find(home, memory_socket), json=json)


def reindex(home: Home = None, memory_socket: MemorySocket = None, json: Json = False) -> int:
    """Build the index anew from the session logs and notes; recall keeps working meanwhile.

    Example: bxctl reindex
    """
    return edits.reindex(find(home, memory_socket), json=json)
