"""The owner's files as a new home has them: `config/*.toml` with every setting commented, grants, and where keys go.

The files of `config/` are written from the daemons' own settings by `python -m tests.bxctl.starters`.
"""

from collections.abc import Iterator
from importlib.resources import files
from typing import Final, NamedTuple

from bxctl.providers import destinations_toml
from proto.escape import escape

DAEMONS: Final = ("memoryd", "brokerd", "egressd", "loopd")
DOMAIN_SETTING: Final = '# domain = "dom-me"\n'
"""The line of the starter loopd.toml that `bxctl init` writes its domain over."""


class Starter(NamedTuple):
    """A file of a new home: its path there, its text, and what it is in a few words."""

    path: str
    text: str
    about: str


def starters(owner: str, domain: str) -> Iterator[Starter]:
    """The files for an owner and a domain."""
    for daemon in DAEMONS:
        text = _packaged(f"{daemon}.toml").replace(DOMAIN_SETTING, f'domain = "{domain}"\n')
        yield Starter(f"config/{daemon}.toml", text, f"{daemon}'s settings, each with its default")
    yield Starter("grants.toml", grants_toml(owner), "destinations: where bytes may go, up to which label")
    yield Starter("grants/http_fetch.toml", _packaged("http_fetch.toml"), "reading the web: you are asked each time")
    yield Starter("prices.toml", _packaged("prices.toml"), "what models cost, for bxctl cost and limits in dollars")
    yield Starter("credentials.env", _packaged("credentials.env"), "keys of providers, which egressd alone reads")


def grants_toml(owner: str) -> str:
    """The starter grants.toml: every destination that is known."""
    parts = [
        f"# grants.toml: the rules of {escape(owner)}'s box. docs/configuration.md lists what may stand here.\n",
        destinations_toml(),
        _packaged("more_destinations.toml"),
    ]
    return "\n".join(parts)


def _packaged(name: str) -> str:
    return (files("bxctl.starter") / name).read_text(encoding="utf-8")
