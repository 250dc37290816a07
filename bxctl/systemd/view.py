"""What a daemon sees of the home when systemd runs it: exactly what the tables of proto give it. Pure.

A bind of one file would go on showing the old one when an editor puts a new one in its place. So a daemon that reads
files of the home's top folder sees that folder, with all that is not its own covered; the others see an empty one with
their folders put in. What lies in the top folder and is not for each of the first kind lies in `local/` in truth
(`APART`), and the top folder has a link to it.

The sockets that a daemon serves are opened by systemd and passed to it, so that it sees the folders of `run/` in which
it is the client, and no others: nobody but the owner's commands reaches `run/owner-*`.
"""

from typing import Final, NamedTuple

from proto.home import PATHS
from proto.sockets import SOCKETS, Socket, served_by

SERVICES: Final = ("memoryd", "brokerd", "egressd", "loopd", "boxmaker-model")
EVERY: Final = "every daemon"
SESSIONS: Final = "run/sessions"
"""The folder of sessions' own sockets, which egressd makes as sessions come and go."""
LOCAL: Final = "local"
_ALSO_MADE: Final = {"egressd": (SESSIONS,), "boxmaker-model": ("run/egress-model",)}
"""Folders of sockets that no row of the table has; the engine of the embedded model has one beside its own."""


class View(NamedTuple):
    """What a daemon sees of a home, as paths under it.

    `empty` are folders that look empty but for what is put into them; `covered` are things that cannot be reached.
    """

    empty: tuple[str, ...]
    covered: tuple[str, ...]
    readable: tuple[str, ...]
    writable: tuple[str, ...]


def passed_to(service: str) -> tuple[Socket, ...]:
    """The sockets that systemd opens for a daemon: those whose requests it answers, and no datagrams.

    The socket of spans is there only while egressd sends traces on, so that it is egressd's to make.
    """
    return tuple(
        row for row in served_by(service) if row.protocol != "datagrams" and (row.requests or row.protocol == "http")
    )


def view_of(service: str) -> View:
    """What a daemon sees."""
    writable = [row.path.rstrip("/") for row in PATHS if row.writer == service]
    readable = [row.path.rstrip("/") for row in PATHS if service in row.readers]
    asked = sorted({f"run/{row.name}" for row in SOCKETS if row.client in (service, EVERY) and row.server != service})
    made = sorted({f"run/{row.name}" for row in served_by(service) if row not in passed_to(service) and row.requests})
    made += _ALSO_MADE.get(service, ())
    if service in _sees_top():
        own = {path.split("/")[0] for path in (*readable, *writable)} | {"run", "state"}
        covered = tuple(sorted(_folders() - own))
        inside = tuple(path for path in readable if "/" in path and not path.startswith(LOCAL))
        return View(("run", "state"), covered, (*inside, *asked), (*writable, *made))
    return View((".",), (), (*readable, *asked), (*writable, *made))


def _sees_top() -> frozenset[str]:
    """The daemons that read a file of the home's top folder."""
    return frozenset(service for row in PATHS if "/" not in row.path for service in row.readers)


def _folders() -> frozenset[str]:
    """The folders in the home's top folder."""
    return frozenset(row.path.split("/")[0] for row in PATHS if "/" in row.path) | {"run"}


APART: Final = tuple(row.path for row in PATHS if "/" not in row.path and not _sees_top() <= {*row.readers})
"""Files of the top folder that not every daemon which sees that folder may read; they lie in `local/`."""


def folders() -> tuple[str, ...]:
    """Every folder of a home, those that a unit puts in among them; they are there before a daemon starts."""
    tables = {row.path.rstrip("/") for row in PATHS if row.path.endswith("/")} | {LOCAL, SESSIONS}
    sockets = {f"run/{row.name}" for row in SOCKETS}
    both = tables | sockets
    parents = {path.rsplit("/", 1)[0] for path in both if "/" in path}
    return tuple(sorted(both | parents))
