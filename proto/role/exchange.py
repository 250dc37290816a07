"""Two paths of one file system change places, at once: neither is ever missing (renameat2(2), `RENAME_EXCHANGE`)."""

import ctypes
import os
from pathlib import Path
from typing import Final

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_libc: Final = ctypes.CDLL(None, use_errno=True)


def exchange(one: Path, other: Path) -> None:
    """Let two files, or two folders, change places.

    Raises:
        OSError: also when the file system cannot do it.

    """
    if _libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(other))
