"""What lies in the folders of the holding. No symbolic link is followed to a file, and none counts as a folder."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from memoryd.kept import item as names
from proto.role import durable

READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_SAID_BYTES: Final = 64 << 20
_PIECE_BYTES: Final = 1 << 16


def content(path: str) -> bytes | None:
    """What a file holds; None when it cannot be read. There are very many of them: two calls of the system for most."""
    try:
        handle = os.open(path, READ)
    except OSError:
        return None
    try:
        data = piece = os.read(handle, _PIECE_BYTES)
        while len(piece) == _PIECE_BYTES and len(data) < _MOST_SAID_BYTES:
            piece = os.read(handle, _PIECE_BYTES)
            data += piece
        return data
    except OSError:
        return None
    finally:
        os.close(handle)


def inside(path: Path) -> list[str]:
    """The names of the folders in a folder; none when it is not there."""
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def known(folder: Path) -> tuple[set[str], dict[str, list[str]]]:
    """The calls that a folder has the `.json` of, and the bodies of each call; what else lies there is not ours."""
    said: set[str] = set()
    bodies: dict[str, list[str]] = {}
    try:
        found = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        found = []
    for name in found:
        call, is_said = names.call_of(name) or (None, False)
        if call is not None and is_said:
            said.add(call)
        elif call is not None:
            bodies.setdefault(call, []).append(name)
    return said, bodies


def remove(folder: Path, files: Iterable[str]) -> None:
    """Remove files of a folder, on disk when it returns."""
    for name in files:
        (folder / name).unlink(missing_ok=True)
    durable.sync_folder(folder)
