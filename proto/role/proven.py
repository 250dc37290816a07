"""What of a journal was found good already: the beginning of each file, known again by the digest of its bytes.

A chain costs far more to check than its bytes to read. Bytes that are as they were when their chain held make a chain
that holds; one that differs in a single one of them is checked from its first line on.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from proto import chain
from proto.role import durable

_BLOCK_BYTES = 1 << 20


class Proven(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The beginning of a file: its bytes and their digest, its lines and the hash of the last one."""

    name: str
    bytes: int
    sha256: str
    lines: int
    head: str


class Part:
    """A file of a journal as far as it was read: its whole lines from the first one on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.bytes = 0
        self.lines = 0
        self.head = chain.ZERO
        self._digest = hashlib.sha256()

    def add(self, raw: bytes, head: str) -> None:
        """The next line as it stands in the file, and the hash that the chain has after it."""
        self.bytes += len(raw)
        self.lines += 1
        self.head = head
        self._digest.update(raw)

    def proven(self) -> Proven:
        """What is kept of it."""
        sha256 = self._digest.hexdigest()
        return Proven(name=self.name, bytes=self.bytes, sha256=sha256, lines=self.lines, head=self.head)

    @classmethod
    def again(cls, path: Path, known: Proven | None) -> "Part":
        """The part of a file that is as it was; nothing of it when that has changed, or is not known."""
        if known is None or known.name != path.name:
            return cls(path.name)
        part = cls(path.name)
        part.bytes, part.lines, part.head = known.bytes, known.lines, known.head
        left = known.bytes
        with path.open("rb") as file:
            while left and (block := file.read(min(left, _BLOCK_BYTES))):
                part._digest.update(block)
                left -= len(block)
        return part if not left and part.proven() == known else cls(path.name)


def load(path: Path) -> Sequence[Proven]:
    """What is kept; nothing when it cannot be read, which costs time alone."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(path.read_bytes(), type=list[Proven])
    return ()


def keep(path: Path, parts: Sequence[Part]) -> None:
    """Keep what was found good; a disk that refuses costs time alone."""
    with contextlib.suppress(OSError):
        durable.replace(path, msgspec.json.encode([part.proven() for part in parts]))


def raw_lines(path: Path, at: int) -> Iterator[bytes]:
    """The complete lines of a file from an offset on."""
    with path.open("rb") as file:
        file.seek(at, os.SEEK_SET)
        for raw in file:
            if raw.endswith(b"\n"):
                yield raw
