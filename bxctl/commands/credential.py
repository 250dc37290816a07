"""`bxctl credential set|list|remove`: the keys of destinations, in `{home}/credentials.env`.

A value comes from standard input alone, never from the command line, which others can read; it is never printed.
"""

import getpass
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from bxctl import exits, render
from bxctl.options import Home, Json
from bxctl.places import Box, find
from proto import credentials
from proto.escape import clip
from proto.faults import Fault
from proto.role import durable
from proto.rules import Rules, load_rules

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
_LONGEST_VALUE_CHARS = 16 << 10


def variable(text: str) -> str:
    """Take the name of a variable from the command line.

    Raises:
        typer.BadParameter: it is none.

    """
    if not credentials.is_name(text):
        raise typer.BadParameter(f"{clip(text, 80)} is no name of a variable, such as ANTHROPIC_API_KEY")
    return text


Name = Annotated[str, typer.Argument(metavar="NAME", help="Such as ANTHROPIC_API_KEY", callback=variable)]


@group.command("set")
def set_(name: Name, home: Home = None, json: Json = False) -> int:
    """Keep a key in credentials.env.

    It is asked for, or read from standard input; egressd finds it at the next call.

    Example: bxctl credential set ANTHROPIC_API_KEY < key.txt
    """
    box = find(home)
    box.need()
    value = _typed(name)
    if not credentials.is_value(value) or len(value) > _LONGEST_VALUE_CHARS:
        raise Fault("config-invalid", f"{name}: a key is printable ASCII without spaces, in one line")
    _write(box, name, value)
    return _told(box, name, json, "is set in")


@group.command()
def remove(name: Name, home: Home = None, json: Json = False) -> int:
    """Take a key out of credentials.env.

    Example: bxctl credential remove ANTHROPIC_API_KEY
    """
    box = find(home)
    box.need()
    if name not in credentials.parse(_read(box.home / credentials.FILE)):
        raise Fault("credential-missing", f"{name} is not in {box.home / credentials.FILE}")
    _write(box, name, None)
    return _told(box, name, json, "is no longer in")


@group.command("list")
def list_(home: Home = None, json: Json = False) -> int:
    """List the names of keys: which destinations want them, and where each is found. No value is shown.

    Example: bxctl credential list
    """
    box = find(home)
    box.need()
    rows = [(name, wanted, _found(box, name)) for name, wanted in sorted(_names(box, load_rules(box.home)).items())]
    if json:
        render.as_json([{"name": name, "destinations": wanted, "found": found} for name, wanted, found in rows])
    else:
        table = ((name, ", ".join(wanted) or None, found) for name, wanted, found in rows)
        render.table(("name", "wanted by", "found in"), table, empty="no destination wants a key")
    return exits.OK


def _told(box: Box, name: str, json: bool, what: str) -> int:
    path = box.home / credentials.FILE
    if json:
        render.as_json({"name": name, "file": str(path)})
    else:
        render.line(f"{name} {what} {path}")
    return exits.OK


def _names(box: Box, rules: Rules) -> dict[str, list[str]]:
    """Every name that is wanted or kept, with the destinations that want it."""
    names: dict[str, list[str]] = {name: [] for name in credentials.parse(_read(box.home / credentials.FILE))}
    for destination, rule in sorted(rules.destinations.items()):
        for name in (rule.credential, rule.base_url_from):
            if name is not None:
                names.setdefault(name, []).append(destination)
    return names


def _found(box: Box, name: str) -> str | None:
    """Where a key is, in egressd's order; its own environment and systemd's folder cannot be seen from here."""
    if credentials.parse(_read(box.home / credentials.FILE)).get(name):
        return credentials.FILE
    return "this shell's environment" if os.environ.get(name) else None


def _typed(name: str) -> str:
    """The key, from a terminal without showing it, or from what is piped in."""
    if sys.stdin.isatty():
        return getpass.getpass(f"{name}: ").strip()
    return sys.stdin.read(_LONGEST_VALUE_CHARS + 2).strip()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise Fault("config-invalid", f"{path}: {error.strerror}") from None


def _write(box: Box, name: str, value: str | None) -> None:
    """Change a line of the file, whole or not at all; it is 0600 whatever it was."""
    path = box.file(credentials.FILE)
    try:
        text = _read(path).decode("utf-8")
        durable.replace(path, credentials.replaced(text, name, value).encode())
    except UnicodeDecodeError:
        raise Fault("config-invalid", f"{path} is not UTF-8") from None
    except OSError as error:
        raise Fault("config-invalid", f"{path}: {error.strerror}") from None
