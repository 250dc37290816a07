"""Append-only JSON Lines: a plain log, and a chained journal over one file or one a month.

A torn last line is cut off when the log is opened and told of; nothing before it is lost. An append is on disk when it
returns. The head of a chained journal is kept in a second file (`state/<daemon>/heads`); it may be behind by the lines
of the last moment, never ahead. What was found good is kept beside it (`heads.proven`): opening a journal checks the
chain of the rest, `verify` always the whole one, and both find the same.
"""

import contextlib
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from proto import chain
from proto.canon import compact, compact_bytes
from proto.role import durable, proven
from proto.role.proven import Part, Proven

Line = dict[str, Any]
_json: Final = msgspec.json.Decoder()
_BREAK: Final = "chain_break"
_HEAD_BYTES: Final = 128
"""The length of the kept head, within one sector, so that one written over another is whole."""
_LINES_APART: Final = 1_000
"""After so many more lines, what was found good is kept anew."""


class Torn(NamedTuple):
    """A last line that a crash left unfinished: its file, and the bytes that were cut off."""

    path: Path
    bytes_cut: int


class JsonLines:
    """One append-only file of JSON objects, one a line, 0600."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mend(self) -> Torn | None:
        """Cut off an unfinished last line; what was cut, or None."""
        if not self.path.exists():
            return None
        with self.path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            whole = end_of_last_line(file, size)
            if whole == size:
                return None
            file.truncate(whole)
            os.fsync(file.fileno())
        return Torn(self.path, size - whole)

    def append(self, *lines: Mapping[str, Any]) -> None:
        """Append lines, and fsync.

        Raises:
            OSError: nothing was appended; what was half written is cut off again.

        """
        self.write(b"".join(compact(dict(line)).encode() + b"\n" for line in lines))

    def write(self, data: bytes, *, sync: bool = True) -> None:
        """Append the bytes of lines, and fsync; the folder before that when the file is new: they are there or are not.

        Without `sync` they are on disk only once `sync` is called.

        Raises:
            OSError: nothing was appended; what was half written is cut off again.

        """
        handle, new = self._opened()
        try:
            if new:
                durable.sync_folder(self.path.parent)
            before = os.fstat(handle).st_size
            try:
                durable.write_whole(handle, data)
                if sync:
                    os.fsync(handle)
            except OSError:
                os.ftruncate(handle, before)
                raise
        finally:
            os.close(handle)

    def _opened(self) -> tuple[int, bool]:
        """The file to append to, and whether it is new."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        try:
            return os.open(self.path, flags), False
        except FileNotFoundError:
            return os.open(self.path, flags | os.O_CREAT, 0o600), True

    def sync(self) -> None:
        """Have every line on disk that was appended."""
        handle = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(self) -> Iterator[Line | None]:
        """The complete lines in order; None for one that is not a JSON object."""
        if self.path.exists():
            yield from map(read_line, proven.raw_lines(self.path, 0))


def read_line(raw: bytes) -> Line | None:
    """The JSON object that a line is, or None; whatever stands there, it raises nothing."""
    try:
        value = _json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def end_of_last_line(file: Any, size: int) -> int:
    """The offset after the last line feed, read backwards in blocks."""
    end = size
    while end:
        begin = max(0, end - 65536)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return int(begin + found + 1)
        end = begin
    return 0


class FileState(NamedTuple):
    """What `verify` found in one file: complete lines, the last line's hash, the first bad line (from 1) or None."""

    path: Path
    lines: int
    head: str
    first_bad: int | None


class End(NamedTuple):
    """Where a journal ended: what has it on disk up to there, how many lines it had, and the last one's hash."""

    sync: Callable[[], None]
    lines: int
    head: str


class Journal:
    """A chained journal: the lines of its files, in the order of the files' names, are one chain.

    `text_fields` are the fields whose texts can be erased without breaking the chain. `heads` is a file of its own.
    """

    def __init__(self, folder: Path, pattern: str, heads: Path, text_fields: Iterable[str]) -> None:
        self._folder = folder
        self._pattern = pattern
        self._heads = heads
        self._proven = heads.with_name(f"{heads.name}.proven")
        self._text_fields = frozenset(text_fields)
        self._head = chain.ZERO
        self._count = 0
        self._unsure = False
        self._kept_lines = 0
        self._logs: dict[str, JsonLines] = {}
        self._good: list[Part] | None = None
        self._since = 0

    @property
    def count(self) -> int:
        """How many lines there are."""
        return self._count

    def files(self) -> list[Path]:
        """The journal's files, oldest first."""
        return sorted(self._folder.glob(self._pattern))

    def lines(self) -> Iterator[Line]:
        """Every readable line, oldest first."""
        for path in self.files():
            for line in JsonLines(path).read():
                if line is not None:
                    yield line

    def open(self, visit: Callable[[Line], None] | None = None) -> tuple[list[Torn], list[FileState]]:
        """Cut off torn lines, check the chain, and take up its head; what was cut, and the files that are bad.

        `visit` is shown each readable line on the way, oldest first; what it raises ends the opening.
        A journal whose chain is broken is still appended to, after a line of `mark_break`.
        """
        torn = [cut for path in self.files() if (cut := JsonLines(path).mend())]
        known = proven.load(self._proven)
        states, parts = self._check(visit, known)
        self._count = sum(state.lines for state in states)
        self._head = states[-1].head if states else chain.ZERO
        self._unsure = False
        bad = [state for state in states if state.first_bad is not None]
        self._good = None if bad else parts
        self._since = self._count - sum(part.lines for part in known)
        self._keep_good()
        return torn, bad

    def append(self, name: str, *lines: Mapping[str, Any], sync: bool = True) -> None:
        """Seal lines, append them in one write to the file `name`, and keep the new head.

        Without `sync` they are on disk, and their head kept, only once `synced` is called or a later line is appended.

        Raises:
            OSError: the lines are not there (a crash may leave the first of them), or only their head is not kept.

        """
        if self._unsure:
            self.open()
        sealed = self._sealed(lines)
        raw = [compact_bytes(line) + b"\n" for line in sealed]
        # A disk that refuses may refuse to cut off again what it took: then the files say where the chain ends.
        self._unsure = True
        self._log(name).write(b"".join(raw), sync=sync)
        self._unsure = False
        for line, stored in zip(sealed, raw, strict=True):
            self._grow(name, stored, line)
            self._head = line["hash"]
        self._count += len(sealed)
        if sync:
            self._keep(self._count, self._head)

    def _log(self, name: str) -> JsonLines:
        if name not in self._logs:
            self._logs[name] = JsonLines(self._folder / name)
        return self._logs[name]

    def _sealed(self, lines: Iterable[Mapping[str, Any]]) -> list[Line]:
        """Lines as they are stored, each chained to the one before it."""
        sealed: list[Line] = []
        prev = self._head
        for line in lines:
            sealed.append(chain.seal(line, prev, self._text_fields))
            prev = sealed[-1]["hash"]
        return sealed

    def end(self, name: str) -> "End":
        """The journal as it ends now, in the file `name`; its `sync` may run in a thread beside further appends."""
        return End(self._log(name).sync, self._count, self._head)

    def synced(self, end: "End") -> None:
        """Keep the head of an end that is on disk, unless a later one is kept already."""
        if end.lines > self._kept_lines:
            self._keep(end.lines, end.head)

    def doubt(self) -> None:
        """A sync failed: what the files hold is looked at before the next line."""
        self._unsure = True

    def _grow(self, name: str, raw: bytes, sealed: Line) -> None:
        """What was found good has one more line, unless it is one that is never good."""
        good = self._good
        if good is None or _BREAK in sealed or (good and name < good[-1].name):
            self._good = None
            return
        if not good or good[-1].name != name:
            good.append(Part(name))
        good[-1].add(raw, sealed["hash"])
        self._since += 1

    def _keep_good(self) -> None:
        if self._good is not None and self._since >= _LINES_APART:
            proven.keep(self._proven, self._good)
            self._since = 0

    def _keep(self, count: int, head: str) -> None:
        """Write the head over the old one, in one call and without an fsync: after a crash it may be behind.

        The line that it speaks of is on disk already, so that it is never ahead.
        """
        self._kept_lines = count
        if count == self._count:
            self._keep_good()
        kept = compact_bytes({"lines": count, "head": head}).ljust(_HEAD_BYTES)
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(self._heads, os.O_WRONLY | os.O_CLOEXEC)
            try:
                if os.fstat(handle).st_size == _HEAD_BYTES:
                    os.pwrite(handle, kept, 0)
                    return
            finally:
                os.close(handle)
        durable.replace(self._heads, kept)

    def verify(self) -> list[FileState]:
        """The state of each file: the chain from the first line to the last, and against the kept head."""
        return self._check(None, ())[0]

    def _check(
        self, visit: Callable[[Line], None] | None, known: Sequence[Proven]
    ) -> tuple[list[FileState], list[Part]]:
        """The state of each file, and what was read of it; the chain of what is `known` is not looked at again."""
        kept = self._kept()
        waiting = deque(known if _agree(known, kept) else ())
        states: list[FileState] = []
        parts: list[Part] = []
        prev, count = chain.ZERO, 0
        for path in self.files():
            part = Part.again(path, waiting.popleft() if waiting else None)
            if not part.lines or part.bytes < path.stat().st_size:
                waiting.clear()
            prev, count = part.head if part.lines else prev, count + part.lines
            first_bad: int | None = None
            begun = part.bytes
            at = 0 if visit else begun
            for raw in proven.raw_lines(path, at):
                at += len(raw)
                line = read_line(raw)
                if at > begun:
                    count += 1
                    good = line is not None and self._is_good(line, prev) and _is_kept(line, count, kept)
                    prev = prev if line is None else str(line.get("hash", chain.ZERO))
                    part.add(raw, prev)
                    first_bad = first_bad if good or first_bad is not None else part.lines
                if line is not None and visit is not None:
                    visit(line)
            states.append(FileState(path, part.lines, prev, first_bad))
            parts.append(part)
        return _cut_short(states, count < kept[0], self._folder), parts

    def mark_break(self, name: str, line: Mapping[str, Any]) -> None:
        """Append the line that says where a break was found; it follows the last line as it is, and is never good."""
        self.append(name, {**line, _BREAK: True})

    def _is_good(self, line: Mapping[str, Any], prev: str) -> bool:
        return _BREAK not in line and chain.holds(line, prev, self._text_fields)

    def _kept(self) -> tuple[int, str]:
        """The kept number of lines and head; a head that cannot be read counts as one that no journal reaches."""
        try:
            kept = read_line(self._heads.read_bytes())
        except FileNotFoundError:
            return 0, chain.ZERO
        if kept is None or not isinstance(kept.get("lines"), int) or not isinstance(kept.get("head"), str):
            return sys.maxsize, chain.ZERO
        return kept["lines"], kept["head"]


def _agree(known: Sequence[Proven], kept: tuple[int, str]) -> bool:
    """Whether the kept head is past what is known, or just at its end and the same."""
    lines = sum(one.lines for one in known)
    return lines < kept[0] or (lines == kept[0] and bool(known) and known[-1].head == kept[1])


def _is_kept(line: Line, count: int, kept: tuple[int, str]) -> bool:
    """Whether a line is the one that the kept head speaks of, when it has that number."""
    return count != kept[0] or line["hash"] == kept[1]


def _cut_short(states: list[FileState], short: bool, folder: Path) -> list[FileState]:
    """Mark the end of the journal bad when it has fewer lines than its head says."""
    if not short:
        return states
    last = states[-1] if states else FileState(folder, 0, chain.ZERO, None)
    first_bad = last.first_bad if last.first_bad is not None else last.lines + 1
    return [*states[:-1], last._replace(first_bad=first_bad)]
