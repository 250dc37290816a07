"""`bxctl init`: a home with the owner's files in it. Nothing that is there already is written over."""

import getpass
import os
from typing import Annotated, NamedTuple

import msgspec
import typer

from bxctl import exits, render
from bxctl.options import Home, Json, Owner
from bxctl.places import Box, find, too_long_bytes
from bxctl.starter import starters
from proto.escape import clip
from proto.faults import Fault
from proto.home import PATHS
from proto.ids import DomainId
from proto.role import durable

_OF_A_BOX = frozenset({path.path.split("/")[0] for path in PATHS} | {"run", "lost+found"})
"""What may lie in a home before it has the owner's files."""
FOLDERS = ("config", "grants", "policy", "state/bxctl")


class Made(NamedTuple):
    """What init did: the paths that it made, with what each is for, and those that were there."""

    made: list[tuple[str, str]]
    kept: list[str]


def init(
    owner: Owner = None,
    domain: Annotated[str, typer.Option(metavar="ID", help="The domain of new sessions")] = "dom-me",
    home: Home = None,
    json: Json = False,
) -> int:
    """Make a home: starter configuration, grants, policy folder. Nothing that is there is written over.

    Example: bxctl init --owner "Ada Lovelace" --domain dom-me
    """
    box = find(home)
    done = make(box, owner or login_name(), domain)
    if json:
        render.as_json({"home": str(box.home), "made": [path for path, _ in done.made], "kept": done.kept})
        return exits.OK
    tell(box, done)
    print()
    render.line(f"start it with: {box.command('run')}")
    return exits.OK


def make(box: Box, owner: str, domain: str) -> Made:
    """Make what is missing in a home.

    Raises:
        Fault: `config-invalid`: the domain is none; `start-failed`: a file cannot be made.

    """
    try:
        msgspec.convert(domain, DomainId)
    except msgspec.ValidationError:
        raise Fault("config-invalid", f"{domain}: a domain is dom- and lower-case letters, digits, hyphens") from None
    _fits(box)
    result = Made([], [])
    try:
        durable.make_folder(box.home)
        for folder in FOLDERS:
            durable.make_folder(box.home / folder)
        for path, text, about in starters(owner, domain):
            if os.path.lexists(target := box.file(path)):
                result.kept.append(path)
            else:
                durable.replace(target, text.encode())
                result.made.append((path, about))
    except OSError as error:
        raise Fault("start-failed", f"{error.filename or box.home}: {error.strerror or error}") from None
    return result


def _fits(box: Box) -> None:
    """Refuse a folder that is somebody's and no box, and a path in which no socket can have an address."""
    if over := too_long_bytes(box.home):
        raise Fault("socket-path-too-long", f"{box.home}: {over} bytes too long for the address of a socket in it")
    if (box.home / "config").exists() or os.path.lexists(box.home / "grants.toml"):
        return
    try:
        others = sorted({*os.listdir(box.home)} - _OF_A_BOX)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Fault("start-failed", f"{box.home}: {error.strerror or error}") from None
    if others:
        raise Fault("start-failed", f"{box.home} is no box, and not empty: it has {clip(others[0], 80)}; name another")


def tell(box: Box, done: Made) -> None:
    """Say what was made and what was left as it was."""
    render.line(f"home: {box.home}")
    for path, about in done.made:
        render.line(f"  made {path:<24} {about}")
    for path in done.kept:
        render.line(f"  kept {path:<24} it was there")


def login_name() -> str:
    """The name of the user who runs this, or `owner` where there is none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "owner"
