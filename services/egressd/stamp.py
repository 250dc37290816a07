"""Whether a file of the owner's has changed since it was read."""

import os
from pathlib import Path

Stamp = tuple[int, ...]


def stamp_of(path: Path) -> Stamp:
    """What is another one when the file is: its times, size, inode and mode, or why it cannot be looked at (errno)."""
    try:
        status = os.stat(path)
    except OSError as error:
        return (error.errno or 0,)
    return stamp_from(status)


def stamp_from(status: os.stat_result) -> Stamp:
    """As `stamp_of`, of a file that was looked at."""
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode)
