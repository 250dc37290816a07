"""Where everything lies under `{home}`, and the one daemon that writes each path.

The table is what the systemd units and the shape tests are checked against: one writer a path; who else may read it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

OWNER: Final = "owner"
"""The writer of what only an editor or `bxctl init` changes."""


class HomePath(NamedTuple):
    """A path under the home: what it is, who alone writes it, who else reads it."""

    path: str
    writer: str
    readers: tuple[str, ...]
    about: str


PATHS: Final = (
    HomePath(
        "config/",
        OWNER,
        ("memoryd", "brokerd", "egressd", "loopd", "launcherd"),
        "a TOML file a daemon",
    ),
    HomePath("grants.toml", OWNER, ("brokerd", "egressd"), "destinations and the owner's rules"),
    HomePath("grants/", OWNER, ("brokerd",), "tool grants, one a file"),
    HomePath("policy/", OWNER, ("brokerd",), "the root's own Rego"),
    HomePath("prices.toml", OWNER, ("egressd",), "prices of models"),
    HomePath("credentials.env", OWNER, ("egressd",), "keys, 0600"),
    HomePath("local/.virtual-key", OWNER, ("egressd",), "the gateway's key, 0600"),
    HomePath("memory/", "memoryd", (), "identity files, notes, edits, recalls"),
    HomePath("record/", "memoryd", (), "the shared record"),
    HomePath("index/", "memoryd", (), "the full-text index; disposable"),
    HomePath("ledger/", "memoryd", (), "the task ledger"),
    HomePath("quarantine/", "memoryd", (), "what the scan held back"),
    HomePath("state/memoryd/", "memoryd", (), "intents, heads, answered calls"),
    HomePath("audit/", "brokerd", (), "decisions.jsonl, chained"),
    HomePath("state/brokerd/", "brokerd", (), "session labels, approvals, heads"),
    HomePath("state/egressd/", "egressd", (), "usage and spend; open sessions; contexts that wait for memoryd"),
    HomePath("sessions/", "loopd", ("memoryd",), "baselines and logs"),
    HomePath("state/loopd/", "loopd", (), "what loopd keeps between starts"),
    HomePath("homes/", "launcherd", (), "private homes of harnesses"),
    HomePath("state/launcherd/", "launcherd", (), "what launcherd keeps between starts"),
    HomePath("state/bxctl/", "bxctl", (), "the history of the chat prompt, the log of `bxctl up`"),
)
"""Every path under the home but `run/`, which `proto.sockets` describes."""

FORMAT: Final = 1
"""The one number of how everything under the home is laid out; `role.migration` brings an older home up to it."""
FIRST_FORMAT: Final = 1
"""What a home is of that says no number: the first boxmakers wrote none."""

CREDENTIALS: Final = frozenset({"credentials.env", "local/.virtual-key"})
"""What goes into a backup only when the owner asks for it."""
NOT_BACKED_UP: Final = {
    "index/": "disposable: built anew from the logs and notes",
    "homes/": "the private homes of harnesses hold their own credentials, and are made anew",
    "state/launcherd/": "says what stands in homes/",
    "state/bxctl/": "the history of the prompt and a log of one machine",
}
"""The paths of the table that no backup has, each with the reason."""

SYSTEM_HOME: Final = Path("/var/lib/boxmaker")


def default_home(flag: str | None, environ: Mapping[str, str], *, own: bool = False) -> Path:
    """Where the home is: `--home`, `$BOXMAKER_HOME`, for bxctl (`own`) the user's data folder, then the system's.

    With `own`, `${XDG_DATA_HOME:-~/.local/share}/boxmaker` is taken when it exists, or when there is no system home.
    """
    if named := flag or environ.get("BOXMAKER_HOME"):
        return Path(named).expanduser().absolute()
    if own:
        data = environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
        mine = Path(data) / "boxmaker"
        if mine.exists() or not SYSTEM_HOME.exists():
            return mine.absolute()
    return SYSTEM_HOME
