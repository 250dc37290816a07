"""Opening a backup that anybody may have made. Every fault of it is `backup-invalid`; nothing of it is written here."""

import hashlib
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

import msgspec

from bxctl.archive.manifest import FOLDER, NAME, FileRow, Manifest, problem_of
from proto import chain
from proto.escape import clip
from proto.faults import Fault
from proto.home import FORMAT
from proto.messages.wire import ChainedJournal, JournalState
from proto.role.journal import read_line
from proto.role.migration import newer

_PIECE_BYTES: Final = 1 << 20
_LARGEST_MANIFEST_BYTES: Final = 1 << 28
_LONGEST_LINE_BYTES: Final = 1 << 26
_ZIP_FAULTS: Final = (
    zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OverflowError, ValueError, msgspec.MsgspecError, OSError,
)  # fmt: skip
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
Seen = Callable[[int], None]


class Archive:
    """An open backup whose manifest is sound."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        with _refusing(self._path):
            self._file = self._path.open("rb")
            try:
                self._zip = zipfile.ZipFile(self._file)
                self.manifest, self.sha256 = self._read_manifest()
            except BaseException:
                self._file.close()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._zip.close()
        self._file.close()

    def pieces(self, row: FileRow) -> Iterator[bytes]:
        """The bytes of a file.

        Raises:
            Fault: `backup-invalid`: they are not those that were put in; only once all of them were given.

        """
        digest, left = hashlib.sha256(), row.size_bytes
        with _refusing(self._path), self._zip.open(FOLDER + row.path) as member:
            while piece := member.read(_PIECE_BYTES):
                left -= len(piece)
                if left < 0:
                    raise ValueError(f"{row.path} is larger than it says")
                digest.update(piece)
                yield piece
            if left or digest.hexdigest() != row.sha256:
                raise ValueError(f"{row.path} was changed")

    def verify(self, seen: Seen = lambda _: None) -> list[JournalState]:
        """Look through all of it; the state of the journals in it. `seen` is told of bytes.

        Raises:
            Fault: `backup-invalid`.

        """
        for row in self.manifest.files:
            for piece in self.pieces(row):
                seen(len(piece))
        return [state for journal in self.manifest.journals for state in self._chain(journal)]

    def _read_manifest(self) -> tuple[Manifest, str]:
        members = self._zip.infolist()
        for member in members:
            kind = stat.S_IFMT(member.external_attr >> 16)
            if member.compress_type not in _METHODS or member.flag_bits & 1 or kind not in (0, stat.S_IFREG):
                raise ValueError(f"{member.filename} is no plain file")
        with self._zip.open(NAME) if NAME in self._zip.NameToInfo else _missing() as file:
            said = file.read(_LARGEST_MANIFEST_BYTES + 1)
        _refuse_newer(said)
        manifest = msgspec.json.decode(said, type=Manifest)
        names = [member.filename for member in members]
        wanted = {NAME, *(FOLDER + row.path for row in manifest.files)}
        problem = problem_of(manifest)
        if problem is None and (len(names) != len(wanted) or {*names} != wanted):
            problem = "it holds other files than it says"
        if problem is not None:
            raise ValueError(problem)
        return manifest, hashlib.sha256(said).hexdigest()

    def _chain(self, journal: ChainedJournal) -> list[JournalState]:
        """As `Journal.verify` finds it: the chain from the first line on, and against the kept head."""
        rows = [
            row
            for row in self.manifest.files
            if row.path == journal.path or (row.path.startswith(journal.path) and row.path.endswith(".jsonl"))
        ]
        kept_lines, kept_head = self._head(journal)
        states: list[JournalState] = []
        prev, count = chain.ZERO, 0
        for row in sorted(rows, key=lambda row: row.path):
            lines, first_bad = 0, None
            with _refusing(self._path), self._zip.open(FOLDER + row.path) as file:
                while raw := file.readline(_LONGEST_LINE_BYTES):
                    line = read_line(raw)
                    lines, count = lines + 1, count + 1
                    good = (
                        line is not None and "chain_break" not in line and chain.holds(line, prev, journal.text_fields)
                    )
                    good = good and (count != kept_lines or str((line or {}).get("hash")) == kept_head)
                    prev = prev if line is None else str(line.get("hash", chain.ZERO))
                    first_bad = lines if first_bad is None and not good else first_bad
            states.append(JournalState(path=row.path, lines=lines, head=prev, first_bad=first_bad))
        if count < kept_lines:
            last = states.pop() if states else JournalState(path=journal.path, lines=0, head=prev, first_bad=None)
            bad = last.lines + 1 if last.first_bad is None else last.first_bad
            states.append(msgspec.structs.replace(last, first_bad=bad))
        return states

    def _head(self, journal: ChainedJournal) -> tuple[int, str]:
        row = next((row for row in self.manifest.files if row.path == journal.heads), None)
        if row is None:
            return 0, chain.ZERO
        kept = read_line(b"".join(self.pieces(row))) or {}
        lines, head = kept.get("lines"), kept.get("head")
        return (lines, head) if isinstance(lines, int) and isinstance(head, str) else (1 << 62, chain.ZERO)


def _missing() -> IO[bytes]:
    raise ValueError("it is no backup of a box")


class _OfAnyFormat(msgspec.Struct):
    """What the manifest of any boxmaker has."""

    format: int


def _refuse_newer(said: bytes) -> None:
    if len(said) > _LARGEST_MANIFEST_BYTES:
        raise ValueError(f"its {NAME} is too large")
    number = msgspec.json.decode(said, type=_OfAnyFormat).format
    if number > FORMAT:
        raise newer(number, "the backup")


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except _ZIP_FAULTS as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Fault("backup-invalid", f"{path}: {clip(reason, 300)}") from None
