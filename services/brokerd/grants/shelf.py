"""The grants in force: the owner's files as they are now, and the built-in ones."""

from pathlib import Path
from typing import Final

import msgspec

from brokerd.grants import fit
from brokerd.grants.builtin import BUILT_IN
from brokerd.grants.fit import Constraints, Fit, Subject
from brokerd.grants.grant import Grant, GrantProblem, parse_grant
from brokerd.watch import Content, Watched
from proto.escape import clip, escape
from proto.labels import Label

_SUFFIX: Final = ".toml"
_LARGEST_BYTES: Final = 1 << 16
_LONGEST_REASON_CHARS: Final = 100


class GrantSet(msgspec.Struct, frozen=True):
    """The owner's grants by id, and what is wrong with any file; with any problem every call is denied."""

    grants: tuple[Grant, ...] = ()
    problems: tuple[str, ...] = ()

    def matching(self, tool: str) -> tuple[Grant, ...]:
        """The grants of a tool, the built-in ones among them."""
        return tuple(grant for grant in self.shown() if grant.says.tool == tool)

    def shown(self) -> tuple[Grant, ...]:
        """All of them, the built-in ones first."""
        return (*BUILT_IN, *self.grants)


class Chosen(msgspec.Struct, frozen=True):
    """The grant that the policy is asked about, and how it fits the call."""

    grant: Grant
    fit: Fit


class Shelf:
    """`{home}/grants/`, read again when a file changes."""

    def __init__(self, home: Path) -> None:
        self._watched = Watched(home / "grants", _SUFFIX, _LARGEST_BYTES)
        self._contents: dict[str, Content] | None = None
        self._set = GrantSet()

    def now(self) -> GrantSet:
        """The grants as the files say now."""
        contents = self._watched.read()
        if contents is not self._contents:
            # The contents last: whatever is raised here is raised again, and never the old grants given.
            self._set = grant_set(contents)
            self._contents = contents
        return self._set


def grant_set(contents: dict[str, Content]) -> GrantSet:
    """The grants in files, by name."""
    grants: list[Grant] = []
    problems: list[str] = []
    for name, content in contents.items():
        shown = f"grants/{escape(name)}" if name.endswith(_SUFFIX) else f"{name}/"
        if isinstance(content, OSError):
            problems.append(f"{shown}: cannot be read: {content.strerror or content}")
            continue
        try:
            grants.append(parse_grant(name.removesuffix(_SUFFIX), content, shown))
        except GrantProblem as problem:
            problems.append(str(problem))
        except Exception as error:  # noqa: BLE001  (what no check foresaw closes too)
            problems.append(
                f"{shown}: cannot be read: {clip(str(error) or type(error).__name__, _LONGEST_REASON_CHARS)}"
            )
    return GrantSet(tuple(grants), tuple(problems))


def choose(grants: tuple[Grant, ...], subject: Subject, label: Label) -> Chosen | None:
    """The grant of a tool under which a call has the best chance, or whose denial holds; None when there is no grant.

    A grant that denies wins. Then any grant that allows is enough, so that a label that rises can only take grants
    away. The choice decides nothing: the policy checks all of it again.
    """
    offers = [Chosen(grant, fit.fit(_constraints(grant), subject)) for grant in grants]
    return min(offers, key=lambda offer: _order(offer, label), default=None)


def _order(offer: Chosen, label: Label) -> tuple[bool | str, ...]:
    says, how = offer.grant.says, offer.fit
    covers = how.covers
    within = label.class_.rank <= says.max_taint.rank
    unasked = says.mode == "auto" and (how.host_exact or not label.untrusted)
    return (
        not (says.mode == "deny" and how.names),
        not covers,
        not within,
        not unasked,
        not how.host_exact,
        offer.grant.id,
    )


def _constraints(grant: Grant) -> Constraints:
    says = grant.says
    return Constraints(tuple(says.hosts), tuple(says.paths), tuple(says.patterns), says.loopback)
