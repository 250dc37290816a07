"""Writing so that a crash leaves the old or the new, never half: temporary file, fsync, rename, fsync of the folder."""

import os
import re
import secrets
from pathlib import Path
from typing import Final

_TEMPORARY: Final = re.compile(r"\..+\.[0-9a-f]{12}\.tmp\Z", re.DOTALL)
LEAST_FREE_BYTES: Final = 1 << 30
_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents, 0700; tighten a folder that is laxer."""
    if not path.is_dir():
        if path.parent != path and not path.parent.is_dir():
            make_folder(path.parent)
        path.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        sync_folder(path.parent)
    elif path.stat().st_mode & 0o077 and path.stat().st_uid == os.geteuid():
        path.chmod(_FOLDER_MODE)


def sync_folder(path: Path) -> None:
    """Put a folder's entries on disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_nearly_full(path: Path) -> bool:
    """Whether the disk has room left only for what must be written: what is kept for later reading stops before."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize < LEAST_FREE_BYTES


def write_temporary(path: Path, data: bytes) -> Path:
    """Write and fsync a new file beside `path`, 0600, and give its path, which begins with `.` and ends with `.tmp`."""
    temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}.tmp"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
    try:
        write_whole(handle, data)
        os.fsync(handle)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)
    return temporary


def replace(path: Path, data: bytes) -> None:
    """Make `data` the whole content of a file, at once and on disk."""
    temporary = write_temporary(path, data)
    try:
        os.rename(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_whole(handle: int, data: bytes) -> None:
    """Write all of the bytes, over as many calls as it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def sweep_temporaries(folder: Path) -> list[Path]:
    """Remove what `write_temporary` left behind in a crash, and nothing that another made; give what was removed."""
    named = (path for path in folder.glob(".*.tmp") if _TEMPORARY.match(path.name))
    left = sorted(path for path in named if path.is_file() and not path.is_symlink())
    for path in left:
        path.unlink(missing_ok=True)
    return left
