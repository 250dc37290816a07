"""A new home in the place of the old one, by one exchange; whatever cuts it off, there is a whole home, old or new.

The new home is made beside the old one, as `<home>.restoring`, with a mark in it from its first moment on. The exchange
gives it the old one's place; then the old one, which has no mark, gets its name, `<home>.before-<time>`, and the mark
goes. So whoever comes after a crash knows each folder by its mark, and `settle` finishes what was begun.
"""

import os
import shutil
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from bxctl.archive.read import Archive, Seen
from bxctl.owner import lent
from proto.faults import Fault
from proto.home import CREDENTIALS, OWNER, PATHS
from proto.role import durable
from proto.role.exchange import exchange

_MARK: Final = ".restoring"
_MODE: Final = 0o600


class Mark(msgspec.Struct, frozen=True):
    """What stands in a home that is being put in place: of which backup it is, and where the old one goes."""

    sha256: str
    before: str | None


class Settled(NamedTuple):
    """What an earlier restore had come to: `done` when it was this very one, and where the old home is then."""

    done: bool
    before: Path | None


def settle(home: Path, sha256: str) -> Settled:
    """Finish what an earlier restore left, or clear it away.

    Raises:
        OSError: the disk refuses.

    """
    _remove(_discarded(home))
    new = _beside(home, "restoring")
    mark = _mark_of(home)
    if os.path.lexists(new):
        if _mark_of(new) is None and _is_home(new):
            _put_aside(new, _free(home) if mark is None or mark.before is None else Path(mark.before))
            durable.sync_folder(home.parent)
        else:
            _discard(home, new)
    if mark is None:
        return Settled(done=False, before=None)
    _unmark(home)
    if mark.sha256 != sha256 or _was_started(home):
        return Settled(done=False, before=None)
    return Settled(done=True, before=None if mark.before is None else Path(mark.before))


def put(home: Path, archive: Archive, time: str, seen: Seen) -> Path | None:
    """Make the home of a backup and put it in place; where the old one is now, if there was one. `settle` comes before.

    Raises:
        Fault: `backup-invalid`: the backup was changed since it was looked through; the home is as it was.
        OSError: the disk refuses; the home is as it was, or the next `settle` finishes.

    """
    new = _beside(home, "restoring")
    there = os.path.lexists(home)
    before = _free(home, time) if there else None
    new.mkdir(mode=0o700)
    try:
        mark = Mark(archive.sha256, str(before) if before else None)
        durable.replace(new / _MARK, msgspec.json.encode(mark))
        _fill(new, archive, seen)
        if there:
            _keep_of(home, new)
        # One wait for all of it: a wait for each of very many files takes hours.
        os.sync()
    except (Fault, OSError):
        _discard(home, new)
        raise
    if before is None:
        os.rename(new, home)
    else:
        try:
            exchange(new, home)
        except OSError:
            _discard(home, new)
            raise
        _put_aside(new, before)
    durable.sync_folder(home.parent)
    _unmark(home)
    return before


def _put_aside(old: Path, before: Path) -> None:
    """Give the old home its name; where root did all this, root alone: a unit sees what is beside its home."""
    if os.geteuid() == 0:
        os.chown(old, 0, 0)
    os.rename(old, before)


def _fill(new: Path, archive: Archive, seen: Seen) -> None:
    for row in PATHS:
        # Under systemd a folder must be there before its daemon is.
        _folder(new / row.path if row.path.endswith("/") else (new / row.path).parent)
    for file in archive.manifest.files:
        path = new / file.path
        _folder(path.parent)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
        try:
            for piece in archive.pieces(file):
                durable.write_whole(handle, piece)
                seen(len(piece))
            os.utime(handle, ns=(file.mtime_ns, file.mtime_ns))
        finally:
            os.close(handle)


def _folder(path: Path) -> None:
    if not path.is_dir():
        _folder(path.parent)
        path.mkdir(mode=0o700)


def _keep_of(home: Path, new: Path) -> None:
    """What the new home has of the old one: keys that the backup has not, links in it, folders of sockets, its user."""
    for name in sorted(CREDENTIALS):
        real = inside(home, name)
        if real is not None and not (new / name).exists():
            with lent(home):
                data = real.read_bytes()
            _folder((new / name).parent)
            durable.replace(new / name, data)
    for row in PATHS:
        link = home / row.path
        if row.writer == OWNER and "/" not in row.path and link.is_symlink() and not os.path.isabs(os.readlink(link)):
            _as_link(home, new, row.path)
    for folder, _, _ in os.walk(home / "run"):
        _folder(new / Path(folder).relative_to(home))
    if os.geteuid() == 0:
        _give(new, home.stat())


def inside(home: Path, name: str) -> Path | None:
    """The regular file at a path of a home, or that a link there leads to within the home; None when there is none."""
    real = Path(os.path.realpath(home / name))
    return real if real.is_relative_to(os.path.realpath(home)) and real.is_file() else None


def _as_link(home: Path, new: Path, name: str) -> None:
    """Put a file where the old home's link leads, and make the link."""
    target = os.readlink(home / name)
    real = Path(os.path.normpath(new / target))
    if real == new or not real.is_relative_to(new):
        return
    _folder(real.parent)
    if (new / name).exists():
        os.rename(new / name, real)
    os.symlink(target, new / name)


def _give(path: Path, owner: os.stat_result) -> None:
    """A folder, and everything in it, to the user of another; root alone can."""
    os.chown(path, owner.st_uid, owner.st_gid)
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            os.chown(Path(folder, name), owner.st_uid, owner.st_gid, follow_symlinks=False)


def _discarded(home: Path) -> Path:
    """A name that nothing else has: what is there is removed, mark or no mark."""
    return home.with_name(f".{home.name}.discarded-by-restore")


def _beside(home: Path, word: str) -> Path:
    return home.with_name(f"{home.name}.{word}")


def _free(home: Path, time: str = "unknown") -> Path:
    """A name for the old home that nothing has."""
    wanted = _beside(home, f"before-{time}")
    number = 1
    while os.path.lexists(wanted):
        number += 1
        wanted = _beside(home, f"before-{time}-{number}")
    return wanted


def _was_started(home: Path) -> bool:
    """Whether a box has been at work in a home that was put in place: no backup has an index, and memoryd makes one."""
    index = home / "index"
    return index.is_dir() and any(index.iterdir())


def _is_home(path: Path) -> bool:
    """Whether there is more in a folder than what a mark is made of."""
    return any(not name.startswith(_MARK) and not name.startswith(f".{_MARK}") for name in os.listdir(path))


def _mark_of(home: Path) -> Mark | None:
    try:
        return msgspec.json.decode((home / _MARK).read_bytes(), type=Mark)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def _unmark(home: Path) -> None:
    (home / _MARK).unlink(missing_ok=True)
    durable.sync_folder(home)


def _discard(home: Path, path: Path) -> None:
    """Remove a folder that has a mark: under another name, since the mark may be what goes first."""
    gone = _discarded(home)
    _remove(gone)
    os.rename(path, gone)
    _remove(gone)


def _remove(path: Path) -> None:
    if os.path.lexists(path):
        shutil.rmtree(path)
