"""One grant: its file's shape, and what is refused in it.

`hosts` are of http_fetch, `paths` of read_file and list_files, `patterns` of run_command. A grant without them covers
every call of its tool, which a grant with `mode = "auto"` may not.
"""

import re
from typing import Final, Literal

import msgspec

from brokerd.grants import fit
from proto.canon import digest
from proto.escape import clip
from proto.faults import Fault
from proto.labels import DataClass, Label
from proto.messages.broker import GrantRow
from proto.role.config import line_of, parse
from proto.tools import TOOLS

BUILT_IN_TOOLS: Final = ("recall", "memory")
RESERVED_PREFIX: Final = "builtin-"
BUILT_IN_REFUSAL: Final = "the policy of recall and memory is built in; remove this grant"
_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")
_CONSTRAINTS: Final[dict[str, str]] = {
    "http_fetch": "hosts",
    "read_file": "paths",
    "list_files": "paths",
    "run_command": "patterns",
}


class GrantFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    tool: str
    """The tool; recall and memory are built in and take no grant."""
    mode: Literal["auto", "ask", "deny"]
    """Whether a call is made, asked about or refused; with `auto` the calls must be named below."""
    max_taint: DataClass = DataClass.PRIVATE
    """The highest class of a session that may call it."""
    result_class: DataClass = DataClass.PRIVATE
    """The least class of what comes back."""
    untrusted: bool = True
    """Whether what comes back is untrusted."""
    hosts: list[str] = []
    """Hosts that may be fetched from: exact names, `*.name`, or `*`."""
    paths: list[str] = []
    """Paths that may be read or listed."""
    patterns: list[str] = []
    """Commands that may be run."""
    loopback: bool = False
    """Whether http to this machine itself may be fetched."""


class Grant(msgspec.Struct, frozen=True):
    """A grant in force: its id (the file's stem, or `builtin-…`), the hash of its text, and what it says."""

    id: str
    sha256: str
    says: GrantFile

    @property
    def built_in(self) -> bool:
        """Whether it is one of the two that no file can change."""
        return self.id.startswith(RESERVED_PREFIX)

    @property
    def result_label(self) -> Label:
        """The label of its results, unless the runtime's is stricter."""
        return Label(class_=self.says.result_class, untrusted=self.says.untrusted)

    def row(self) -> GrantRow:
        """As the owner is shown it."""
        return GrantRow(grant=self.id, sha256=self.sha256, **msgspec.structs.asdict(self.says))


class GrantProblem(Exception):
    """A file that is no grant; the message names the file, the line and the key."""


def parse_grant(stem: str, data: bytes, name: str) -> Grant:
    """The grant in a file of the owner's.

    Raises:
        GrantProblem: it is none, or is for a tool whose policy is built in.

    """
    try:
        text = data.decode()
        says = parse(text, name, GrantFile)
    except UnicodeDecodeError:
        raise GrantProblem(f"{name}: not UTF-8") from None
    except Fault as fault:
        raise GrantProblem(fault.message) from None
    if stem.startswith(RESERVED_PREFIX):
        raise GrantProblem(f"{name}: ids that begin with {RESERVED_PREFIX} are reserved")
    if not _ID.match(stem):
        raise GrantProblem(f"{name}: a grant's file is named with a to z, 0 to 9, - and _")
    if says.tool in BUILT_IN_TOOLS:
        raise GrantProblem(f"{_at(name, text, 'tool')}: {BUILT_IN_REFUSAL}")
    for key, what in _problems(says):
        raise GrantProblem(f"{_at(name, text, key)}: {what}")
    return Grant(stem, digest(data), says)


def _problems(says: GrantFile) -> list[tuple[str, str]]:
    """What is wrong with a grant that has its shape: pairs of the key and a sentence."""
    if says.tool not in TOOLS:
        return [("tool", f"there is no tool {clip(says.tool, 60)}")]
    own = _CONSTRAINTS[says.tool]
    found = [
        (key, f"{says.tool} has no {key}")
        for key in ("hosts", "paths", "patterns")
        if key != own and getattr(says, key)
    ]
    if says.loopback and says.tool != "http_fetch":
        found.append(("loopback", f"{says.tool} has no loopback"))
    if says.mode == "auto" and not getattr(says, own):
        found.append(("mode", f"a grant with mode auto must name its {own}"))
    checks = {"hosts": fit.host_problem, "paths": fit.path_problem, "patterns": fit.pattern_problem}
    found += [(own, problem) for item in getattr(says, own) if (problem := checks[own](item))]
    return found


def _at(name: str, text: str, key: str) -> str:
    line = line_of(text, (key,))
    return f"{name}, line {line}: {key}" if line else f"{name}: {key}"
