"""The last answers to calls, so that a call that is repeated gets its first answer, after a new start too.

An answer is written when it is given, and not fsynced: a killed daemon loses none, and after a power failure the
journal tells what a write was answered.

Source: contract, "Wire".
"""

import os
from collections import OrderedDict
from pathlib import Path
from typing import Final

import msgspec

from proto.labels import DataClass
from proto.role import durable
from proto.role.journal import JsonLines

MOST: Final = 2_048
"""How many answers are kept; the oldest go first."""

Key = tuple[str, str]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a call of a session was answered."""

    session: str
    call: str
    ok: bool
    text: str
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool


class Answers:
    """The answers by session and call. Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: OrderedDict[Key, Answer] = OrderedDict()
        self._lines = 0

    def open(self) -> None:
        """Take up the file."""
        lines = JsonLines(self._path)
        lines.mend()
        for line in lines.read():
            self._lines += 1
            try:
                self._take(msgspec.convert(line, Answer))
            except msgspec.ValidationError:
                continue  # an answer that cannot be read is one that is not kept
        self._shorten()

    def find(self, session: str, call: str) -> Answer | None:
        """The first answer to a call."""
        return self._kept.get((session, call))

    def keep(self, answer: Answer) -> None:
        """Keep an answer, before it is given."""
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            durable.write_whole(handle, _line(answer))
        finally:
            os.close(handle)
        self._lines += 1
        self._take(answer)
        self._shorten()

    def _take(self, answer: Answer) -> None:
        self._kept.setdefault((answer.session, answer.call), answer)
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)

    def _shorten(self) -> None:
        """Write the file anew when most of its lines are no longer kept."""
        if self._lines > 2 * MOST:
            durable.replace(self._path, b"".join(map(_line, self._kept.values())))
            self._lines = len(self._kept)


def _line(answer: Answer) -> bytes:
    return msgspec.json.encode(answer) + b"\n"
