"""The last answers to calls that changed nothing, so that one that is repeated gets its first answer, after a new start
too. What a write was answered is told by the journal, for ever.

An answer is written when it is given, and not fsynced: a killed daemon loses none.

Source: contract, "Wire".
"""

import os
from collections import OrderedDict
from pathlib import Path
from typing import Final

import msgspec

from proto.labels import DataClass
from proto.role import durable

MOST: Final = 16_384
"""How many answers are kept; the oldest go first."""
MOST_BYTES: Final = 1 << 23
"""How many bytes of the file those may be."""

Key = tuple[str, str]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a call of a session was answered."""

    session: str
    call: str
    ok: bool
    text: str
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool


_decoder: Final = msgspec.json.Decoder(Answer)


class Answers:
    """The answers by session and call. Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: OrderedDict[Key, tuple[Answer, int]] = OrderedDict()
        self._kept_bytes = 0
        self._file_lines = 0
        self._file_bytes = 0

    def open(self) -> None:
        """Take up the file; a line that cannot be read is an answer that is not kept."""
        if not self._path.exists():
            durable.replace(self._path, b"")
        data = self._path.read_bytes()
        whole, _, torn = data.rpartition(b"\n")
        for raw in whole.split(b"\n") if whole else ():
            answer = _read(raw)
            if answer is not None:
                self._take(answer, len(raw) + 1)
            self._file_lines += 1
        self._file_bytes = len(data) - len(torn)
        if torn:
            os.truncate(self._path, self._file_bytes)
        self._shorten()

    def find(self, session: str, call: str) -> Answer | None:
        """The first answer to a call."""
        found = self._kept.get((session, call))
        return found[0] if found else None

    def keep(self, answer: Answer) -> None:
        """Keep an answer, before it is given.

        Raises:
            OSError: the disk refuses; it is kept until the daemon ends.

        """
        line = _line(answer)
        self._take(answer, len(line))
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            durable.write_whole(handle, line)
        except OSError:
            os.ftruncate(handle, self._file_bytes)
            raise
        finally:
            os.close(handle)
        self._file_lines += 1
        self._file_bytes += len(line)
        self._shorten()

    def _take(self, answer: Answer, size_bytes: int) -> None:
        key = (answer.session, answer.call)
        if key in self._kept:
            return
        self._kept[key] = answer, size_bytes
        self._kept_bytes += size_bytes
        while len(self._kept) > MOST or self._kept_bytes > MOST_BYTES:
            _, (_, gone_bytes) = self._kept.popitem(last=False)
            self._kept_bytes -= gone_bytes

    def _shorten(self) -> None:
        """Write the file anew when most of it is no longer kept."""
        if self._file_lines > 2 * MOST or self._file_bytes > 2 * MOST_BYTES:
            data = b"".join(_line(answer) for answer, _ in self._kept.values())
            durable.replace(self._path, data)
            self._file_lines, self._file_bytes = len(self._kept), len(data)


def _read(raw: bytes) -> Answer | None:
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _line(answer: Answer) -> bytes:
    return msgspec.json.encode(answer) + b"\n"
