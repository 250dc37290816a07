"""The format of what a daemon keeps: found at its start, brought up to date once, refused when it is of a newer box.

The home has one format number, `proto.home.FORMAT`. Each daemon says in `state/<daemon>/format` up to which number the
paths that it alone writes were brought; a home without that file is as the first boxmakers made it. A step from one
number to the next is the daemon's own function. What the step touches is copied before to `state/<daemon>/before-<n>/`,
the number is written after, and all of it may be cut off anywhere: the next start does it again to the same end.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from proto.faults import FAULTS, Fault
from proto.home import FIRST_FORMAT, FORMAT
from proto.role import durable
from proto.role.log import logger

FILE: Final = "format"
COPY: Final = "before-"
"""What the name of a copy begins with, in the daemon's own folder of `state/`."""
_LOCK: Final = ".format.lock"
_LONGEST_BYTES: Final = 20


class Step(NamedTuple):
    """From one number to the next: the paths under the home that it touches, and what does it.

    `bring` is given the home. It must come to the same end when an earlier one was cut off at any place.
    """

    touches: tuple[str, ...]
    bring: Callable[[Path], None]


Steps = Mapping[int, Step]
"""The steps of a daemon by the number that they begin at; a number without one asks nothing of this daemon."""


@contextmanager
def held(home: Path, daemon: str, steps: Steps | None = None) -> Iterator[None]:
    """What a daemon keeps in a home is of this box's format inside the block, and stays so.

    Raises:
        Fault: `home-newer`; `socket-in-use`: a step must be made, and another daemon of that name is at work;
            `start-failed` or the daemon's own: the disk refuses, or the number cannot be read.

    """
    state = home / "state" / daemon
    try:
        durable.make_folder(state)
        handle = os.open(state / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _failed(daemon, f"{state}: {error.strerror}") from None
    try:
        _bring(home, daemon, steps or {}, handle)
        yield
    finally:
        os.close(handle)


def found(home: Path, daemon: str) -> int | None:
    """The number up to which a daemon's paths were brought; None when nothing says so.

    Raises:
        Fault: `start-failed` or the daemon's own: there is no number in the file.

    """
    path = home / "state" / daemon / FILE
    try:
        with path.open("rb") as file:
            said = file.read(_LONGEST_BYTES).strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _failed(daemon, f"{path}: {error.strerror}") from None
    if not said.isdigit():
        raise _failed(daemon, f"{path}: it should hold the number of a format")
    return int(said)


def newer(number: int, what: str) -> Fault:
    """The refusal of what is of a format that is not known here yet."""
    return Fault("home-newer", f"{what} is of format {number}, and this boxmaker knows {FORMAT}; use a newer boxmaker")


def _failed(daemon: str, message: str) -> Fault:
    own = f"{daemon}-start-failed"
    return Fault(own if own in FAULTS else "start-failed", message)


def _bring(home: Path, daemon: str, steps: Steps, handle: int) -> None:
    fcntl.flock(handle, fcntl.LOCK_SH)
    if _known(home, daemon) == FORMAT:
        return
    try:
        # Nobody of this name may be at work on what is changed; who only works shares the lock.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Fault(
            "socket-in-use", f"another {daemon} is at work in {home}, which must be brought up to date"
        ) from None
    number = _known(home, daemon)
    try:
        for at in range(FIRST_FORMAT if number is None else number, FORMAT):
            _step(home, daemon, at, steps.get(at))
        durable.replace(home / "state" / daemon / FILE, b"%d\n" % FORMAT)
    except OSError as error:
        where = error.filename or home
        raise _failed(daemon, f"{where}: {error.strerror}; what {daemon} keeps is not up to date yet") from None
    fcntl.flock(handle, fcntl.LOCK_SH)


def _known(home: Path, daemon: str) -> int | None:
    number = found(home, daemon)
    if number is not None and number > FORMAT:
        raise newer(number, f"what {daemon} keeps in {home}")
    return number


def _step(home: Path, daemon: str, at: int, step: Step | None) -> None:
    state = home / "state" / daemon
    if step is not None:
        kept = state / f"{COPY}{at}"
        if not kept.exists():
            _copy(home, step.touches, kept)
        step.bring(home)
        logger().info("home-migrated", format=at + 1, copy=str(kept))
    durable.replace(state / FILE, b"%d\n" % (at + 1))


def _copy(home: Path, touches: tuple[str, ...], kept: Path) -> None:
    """A copy of paths, on disk and whole when it has its name."""
    beside = kept.with_name(f".{kept.name}.tmp")
    shutil.rmtree(beside, ignore_errors=True)
    durable.make_folder(beside)
    for path in touches:
        source, target = home / path, beside / path
        durable.make_folder(target.parent)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        elif source.exists():
            shutil.copy2(source, target)
    for folder, _, names in os.walk(beside):
        for name in names:
            _sync(Path(folder, name))
        durable.sync_folder(Path(folder))
    os.rename(beside, kept)
    durable.sync_folder(kept.parent)


def _sync(path: Path) -> None:
    if path.is_symlink():
        return
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
