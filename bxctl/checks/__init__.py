"""What `bxctl doctor` looks at: `files` (no daemon need be up) and `daemons` (asked over their owner sockets)."""

import shlex
from pathlib import Path
from typing import Literal, NamedTuple


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
    return f"$EDITOR {shlex.quote(str(path))}"
