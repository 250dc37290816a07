"""state/egressd/outbox/: what waits to be handed over to memoryd, one file an item, the oldest first.

A file is the bodies one after the other, then what is said of them as JSON, then the length of that in 8 bytes. It gets
its name when it is whole. Nothing is fsynced: a daemon that is killed loses none of them, a power failure may.
"""

import hashlib
import itertools
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

import msgspec

from proto.messages.memory import KeepBegin, KeptPart
from proto.role import durable

PIECE_BYTES: Final = 1 << 19
_ENDING: Final = ".item"
_LENGTH_BYTES: Final = 8
_MOST_SAID_BYTES: Final = 1 << 20


class Full(Exception):
    """There is no room for another item, or the disk is nearly full."""


class Body(NamedTuple):
    """A part to write: its name, whether it is whole, its headers, its bytes in pieces."""

    name: str
    whole: bool
    headers: list[tuple[str, str]]
    pieces: Iterable[bytes]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of an item: how it begins and how it ends."""

    begun: KeepBegin
    parts: list[KeptPart]


_decoder: Final = msgspec.json.Decoder(Item)


class Outbox:
    """The files. Used by one thread at a time but for `oldest`."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        """Take up what is there.

        Raises:
            OSError: the folder cannot be used.

        """
        durable.make_folder(folder)
        self._folder = folder
        self._most_bytes = most_bytes
        for path in folder.glob(".*.tmp"):
            path.unlink()
        # Names alone: very many may wait.
        self._sizes = {path.name: path.stat().st_size for path in sorted(folder.glob(f"*{_ENDING}"))}
        self._queue = deque(self._sizes)
        self._bytes = sum(self._sizes.values())

    def __len__(self) -> int:
        return len(self._queue)

    def oldest(self, most: int) -> list[Path]:
        """The items that are next, at most so many; in one step, while another thread may write."""
        return [self._folder / name for name in list(itertools.islice(self._queue, most))]

    def write(self, begun: KeepBegin, bodies: Iterable[Body]) -> None:
        """Put an item at the end.

        Raises:
            Full: there is no room for it, here or on the disk.
            OSError: the disk refuses.

        """
        if durable.is_nearly_full(self._folder):
            raise Full
        path = self._folder / f"{time.time_ns():020}-{begun.call}{_ENDING}"
        temporary = self._folder / f".{path.name}.tmp"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(handle, "wb") as file:
                parts = [self._write_body(file, body) for body in bodies]
                said = msgspec.json.encode(Item(begun=begun, parts=parts))
                file.write(said + len(said).to_bytes(_LENGTH_BYTES, "big"))
                size_bytes = file.tell()
            os.rename(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._sizes[path.name] = size_bytes
        self._bytes += size_bytes
        self._queue.append(path.name)

    def remove(self, paths: Iterable[Path]) -> None:
        """Forget items; one that the disk keeps is handed over again by the next start, and known there."""
        for path in paths:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            self._queue.remove(path.name)
            self._bytes -= self._sizes.pop(path.name)

    def _write_body(self, file: IO[bytes], body: Body) -> KeptPart:
        size_bytes, digest = 0, hashlib.sha256()
        for piece in body.pieces:
            if self._bytes + file.tell() + len(piece) > self._most_bytes:
                raise Full
            file.write(piece)
            digest.update(piece)
            size_bytes += len(piece)
        return KeptPart(
            name=body.name, size_bytes=size_bytes, sha256=digest.hexdigest(), whole=body.whole, headers=body.headers
        )


def read(path: Path) -> Item | None:
    """What is said of an item; None when the file is damaged.

    Raises:
        OSError: it cannot be read.

    """
    with path.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(0, size_bytes - _LENGTH_BYTES))
        said_bytes = int.from_bytes(file.read(_LENGTH_BYTES), "big")
        begins = size_bytes - _LENGTH_BYTES - said_bytes
        if begins < 0 or said_bytes > _MOST_SAID_BYTES:
            return None
        file.seek(begins)
        try:
            item = _decoder.decode(file.read(said_bytes))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
    return item if sum(part.size_bytes for part in item.parts) == begins else None


def bodies(path: Path, item: Item) -> list[bytes]:
    """The bodies of an item.

    Raises:
        OSError: it cannot be read.

    """
    with path.open("rb") as file:
        return [file.read(part.size_bytes) for part in item.parts]


def pieces(path: Path, item: Item) -> Iterator[tuple[str, int, bytes]]:
    """The bodies of an item in pieces: the part, the offset in it, the bytes.

    Raises:
        OSError: it cannot be read.

    """
    with path.open("rb") as file:
        for part in item.parts:
            for at in range(0, part.size_bytes, PIECE_BYTES):
                yield part.name, at, file.read(min(PIECE_BYTES, part.size_bytes - at))
