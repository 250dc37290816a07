"""`bxctl restore`: the home of a backup in the place of the one that is there, which is kept beside it."""

import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from bxctl import exits, render
from bxctl.archive import swap
from bxctl.archive.progress import Progress
from bxctl.archive.read import Archive
from bxctl.commands.backup import tell_broken
from bxctl.options import Home, Json
from bxctl.owner import lent
from bxctl.places import OWNER_ROWS, Box, named, too_long_bytes
from bxctl.supervise.lock import holder, is_held, only_one
from bxctl.systemd.units import TARGET, passive
from proto.faults import Fault
from proto.home import SYSTEM_HOME, default_home
from proto.role.clock import now
from proto.sockets import socket

_STOP_SECONDS: Final = 90.0
_POLL_SECONDS: Final = 0.05
_ROOM_BYTES: Final = 16 << 20
"""What is left free on the disk beside what a backup says that it holds."""


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What bxctl backup wrote")],
    home: Home = None,
    json: Json = False,
) -> int:
    """Stop the box, and put the home of a backup in the place of the one there, which stays as HOME.before-TIME.

    The backup is looked through first. Keys stay as they are here when it has none. The index is built anew at start.

    Example: bxctl restore ~/box.bxbackup
    """
    box = Box(Path(os.path.realpath(named(home))))
    _may(box.home)
    with Archive(file) as archive:
        with Progress("verify", archive.manifest.size_bytes) as progress:
            journals = archive.verify(progress.seen)
        with _told(box.home):
            before, start = _restore(box, archive)
    tell_broken(journals)
    if json:
        kept = None if before is None else str(before)
        render.as_json(
            {"home": str(box.home), "before": kept, "made": archive.manifest.made, "files": len(archive.manifest.files)}
        )
        return exits.OK
    render.line(f"{box.home} is as it was at {archive.manifest.made} (UTC)")
    if before is not None:
        render.line(f"what was there is in {before}; remove it when you miss nothing")
    render.line(f"start it with: {start}")
    return exits.OK


def _restore(box: Box, archive: Archive) -> tuple[Path | None, str]:
    """Where the old home is, and the command that starts the box."""
    home = box.home
    home.parent.mkdir(parents=True, exist_ok=True)
    with _alone(home.parent):
        done, before = swap.settle(home, archive.sha256)
        start = box.command("up")
        if not done:
            _fits(home, archive)
            if stopped := _stop(box):
                start = stopped
            with ExitStack() as held, Progress("restore", archive.manifest.size_bytes) as progress:
                if home.exists():
                    with lent(home):
                        held.enter_context(only_one(home, box.own))
                before = swap.put(home, archive, f"{now():%Y%m%dT%H%M%SZ}", progress.seen)
    return before, start


def _may(home: Path) -> None:
    """Refuse who cannot put a home in the place of this one.

    Raises:
        Fault: `peer-refused`: it is another user's; `restore-failed`: its folder is; `socket-path-too-long`.

    """
    if over := too_long_bytes(home):
        raise Fault("socket-path-too-long", f"{home}: choose a path that is {over} bytes shorter, or no socket fits")
    try:
        owner = home.stat().st_uid
    except FileNotFoundError:
        if home == SYSTEM_HOME:
            # It would be root's, and the box's user could not read it.
            raise Fault("restore-failed", f"there is no box at {home} yet; sudo bxctl install makes it") from None
        return
    except OSError as error:
        raise Fault("restore-failed", f"{home}: {error.strerror or error}") from None
    if os.geteuid() not in (0, owner):
        raise Fault("peer-refused", f"the box at {home} is another user's; run the same command by sudo")
    if not os.access(home.parent, os.W_OK):
        raise Fault("restore-failed", f"you may not write into {home.parent}; run the same command by sudo")


def _fits(home: Path, archive: Archive) -> None:
    free = shutil.disk_usage(home.parent).free
    needed = archive.manifest.size_bytes + _ROOM_BYTES
    if needed > free:
        raise Fault("restore-failed", f"{home.parent} has room for {free:,} bytes, and the backup needs {needed:,}")


def _stop(box: Box) -> str | None:
    """End the box that runs in a home; the command that starts it again, if that is not `bxctl up`.

    Raises:
        Fault: `box-is-up`: it does not end, or nobody is known who runs it.

    """
    with lent(box.home):
        if is_held(box.own):
            pid, _ = holder(box.own) or ("", "")
            if pid.isdigit():
                render.line(f"stopping the box (process {pid}) …")
                os.kill(int(pid), signal.SIGTERM)
            _wait_until(lambda: not is_held(box.own), box)
    units = _units(box.home)
    start = None
    if units and _up(units):
        render.line(f"stopping {TARGET} …")
        # Each by its name: a target is stopped at once, and its services go on writing for a while.
        stop = [*units, "stop", TARGET, *passive()]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(stop, check=False, capture_output=True, timeout=_STOP_SECONDS)
        if still := _up(units):
            raise Fault("box-is-up", f"{still[0]} does not end; see: {' '.join([*units, 'status', still[0]])}")
        start = " ".join([*units, "start", TARGET])
    for row in OWNER_ROWS:
        if box.answers(row):
            raise Fault("box-is-up", f"{socket(row).server} answers at {box.socket(row)}; stop it, then restore again")
    return start


def _units(home: Path) -> list[str] | None:
    """How the units of a home are spoken to; None where there can be none."""
    if shutil.which("systemctl") is None:
        return None
    if home == SYSTEM_HOME:
        return ["systemctl"]
    return ["systemctl", "--user"] if home == Path(os.path.realpath(default_home(None, {}, own=True))) else None


def _up(units: list[str]) -> list[str]:
    """The units that are active, or are being stopped or started."""
    names = (TARGET, *passive())
    asked = [*units, "show", "--property=ActiveState", "--value", *names]
    said = subprocess.run(asked, check=False, capture_output=True, text=True).stdout.split()
    return [name for name, state in zip(names, said, strict=False) if state not in {"inactive", "failed"}]


def _wait_until(true: Callable[[], bool], box: Box) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while not true():
        if time.monotonic() > deadline:
            raise Fault("box-is-up", f"the box at {box.home} does not end; see {box.own / 'up.log'}")
        time.sleep(_POLL_SECONDS)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One restore at a time beside a home. The lock is on the folder itself, and goes with this process."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def _told(home: Path) -> Iterator[None]:
    """What the disk refuses becomes `restore-failed`."""
    try:
        yield
    except OSError as error:
        where = error.filename2 or error.filename or home
        raise Fault(
            "restore-failed", f"{where}: {error.strerror or error}; run the same command again to finish"
        ) from None
