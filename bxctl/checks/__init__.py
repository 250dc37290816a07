"""What `bxctl doctor` looks at: `files` (no daemon need be up) and `daemons` (asked over their owner sockets)."""

import shlex
from pathlib import Path
from typing import Literal, NamedTuple

from bxctl.systemd.units import USER
from proto.home import SYSTEM_HOME


class Finding(NamedTuple):
    """Something that is wrong: what, the one command that mends it, and its runbook entry, if there is one."""

    where: str
    what: str
    mend: str
    runbook: str | None
    level: Literal["problem", "note"] = "problem"


class Looked(NamedTuple):
    """Something that was looked at, and what was found: nothing wrong, or findings."""

    at: str
    saw: str
    findings: tuple[Finding, ...] = ()


def editor(path: Path) -> str:
    """The command that opens a file or a folder for its owner."""
    return on_file("$EDITOR", path)


def on_file(command: str, path: Path) -> str:
    """A command on a file of a home; on a system install as the box's user, since nobody else may go there."""
    line = f"{command} {shlex.quote(str(path))}"
    return f"sudo -u {USER} {line}" if path.is_relative_to(SYSTEM_HOME) else line
