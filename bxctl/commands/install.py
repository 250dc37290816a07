"""`bxctl install`, `bxctl uninstall`: the box as hardened units of systemd, for the system or for one user."""

import os
import pwd
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from bxctl import exits, render
from bxctl.commands.init import login_name
from bxctl.options import Json, Owner
from bxctl.systemd import steps
from bxctl.systemd.environment import refuse_another
from bxctl.systemd.units import SYSTEM, Place
from proto.faults import Fault

_CAN_STAND_IN_A_UNIT = re.compile(r"/[A-Za-z0-9/._@+-]*")
User = Annotated[bool, typer.Option("--user", help="For your own service manager (systemctl --user), without root")]
Prefix = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="Where the programs go [default: /opt/boxmaker, or ~/.local/lib/boxmaker]"),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing")]


def install(
    owner: Owner = None,
    user: User = False,
    prefix: Prefix = None,
    model: Annotated[bool, typer.Option(help="With the embedded model, if it is installed here")] = True,
    start: Annotated[bool, typer.Option(help="Start the box, or start it again")] = True,
    *,
    dry_run: DryRun = False,
    json: Json = False,
) -> int:
    """Install the box as units of systemd, make its home, and start it. May be repeated: it renews what is there.

    What runs here is copied; nothing is downloaded. Keys, grants and memory in the home stay as they are.

    Example: bxctl install --dry-run
    """
    from bxctl.supervise.lock import is_held

    place = _place(prefix, user=user)
    if is_held(Path(place.home) / "state" / "bxctl"):
        raise Fault(
            "box-is-up", f"bxctl up runs the box at {place.home}; stop it first, since systemd takes its sockets"
        )
    whose = owner or os.environ.get("SUDO_USER") or login_name()
    _do(place, steps.install(place, whose, model=model, start=start), dry_run=dry_run, json=json)
    if not (dry_run or json):
        _tell(place)
    return exits.OK


def uninstall(user: User = False, prefix: Prefix = None, dry_run: DryRun = False, json: Json = False) -> int:
    """Take the units and the programs away again. The home, with all that is remembered, and its user stay.

    Example: bxctl uninstall --dry-run
    """
    place = _place(prefix, user=user)
    _do(place, steps.uninstall(place), dry_run=dry_run, json=json)
    if not (dry_run or json):
        render.line(f"the home {place.home} is as it was")
    return exits.OK


def _place(prefix: Path | None, *, user: bool) -> Place:
    """Where the box goes.

    Raises:
        Fault: `peer-refused`: this needs root, or must not be root; `config-invalid`: a path that no unit can name;
            `install-failed`: something else than the programs of the box is there.

    """
    if user == (os.geteuid() == 0):
        what = "a user's units are that user's own: no sudo" if user else "the system's units are root's: sudo bxctl …"
        raise Fault("peer-refused", what)
    place = SYSTEM
    if user:
        data = Path(os.environ.get("XDG_DATA_HOME") or Path("~/.local/share").expanduser())
        place = Place("user", str(Path("~/.local/lib/boxmaker").expanduser()), str(data / "boxmaker"))
    if prefix is not None:
        place = place._replace(prefix=str(prefix.expanduser().absolute()))
    for path in (place.prefix, place.home):
        if not _CAN_STAND_IN_A_UNIT.fullmatch(path):
            raise Fault("config-invalid", f"{path}: a unit can name a path of letters, digits and ._@+- only")
    programs, home = Path(os.path.realpath(place.prefix)), Path(os.path.realpath(place.home))
    if programs.is_relative_to(home) or home.is_relative_to(programs):
        raise Fault("install-failed", f"{programs}: the programs and the home {home} must lie apart")
    # Before anything is done, or said to be: what is there goes when the programs are renewed or removed.
    refuse_another(Path(place.prefix))
    return place


def _do(place: Place, todo: Iterable[steps.Step], *, dry_run: bool, json: bool) -> None:
    """Do the steps, saying each; with `dry_run` only say them."""
    said = []
    try:
        for step in todo:
            said.append(step.about)
            if not json:
                render.line(f"{'would ' if dry_run else ''}{step.about}")
            if not dry_run:
                step.act()
    except OSError as error:
        raise Fault("install-failed", f"{error.filename}: {error.strerror}") from None
    if json:
        render.as_json({"prefix": place.prefix, "home": place.home, "done": not dry_run, "steps": said})


def _tell(place: Place) -> None:
    print()
    if not steps.is_running(place):
        render.line("systemd does not run here; the box starts with it")
        return
    tried = None if place.user else _tried()
    doctor = f"bxctl --home {place.home} doctor" if tried else "bxctl doctor"
    render.line(f"look at it: {'systemctl --user' if place.user else 'systemctl'} status boxmaker.target; {doctor}")
    if tried:
        render.line(f"bxctl finds your own box at {tried} first: take it along, as docs/install.md says,")
        render.line(f"or say which one you mean: export BOXMAKER_HOME={place.home}")
    if place.user:
        render.line("for a box that runs while you are logged out: loginctl enable-linger")


def _tried() -> Path | None:
    """The home of a box that whoever asked sudo for this has tried before; bxctl would find that one first."""
    try:
        person = pwd.getpwnam(os.environ["SUDO_USER"]).pw_dir
    except KeyError:
        return None
    home = Path(person, ".local/share/boxmaker")
    return home if home.is_dir() else None
