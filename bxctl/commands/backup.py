"""`bxctl backup`: everything that the box keeps in one file, while it works on; or whether such a file is whole."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bxctl import exits, render
from bxctl.archive.manifest import Manifest, is_path, writer_of
from bxctl.archive.pack import Writer
from bxctl.archive.progress import Progress
from bxctl.archive.read import Archive
from bxctl.archive.swap import inside
from bxctl.options import Home, Json
from bxctl.places import Box, Unreachable, find
from proto.escape import escape
from proto.faults import Fault
from proto.home import CREDENTIALS, FORMAT, NOT_BACKED_UP, OWNER, PATHS
from proto.messages.wire import Backup, BackupEnd, BackupFile, BackupPiece, JournalState
from proto.role.ask import ask_stream
from proto.role.clock import now, stamp
from proto.role.migration import newer
from proto.sockets import socket

_PARTS: Final = ("owner-egress", "owner-loop", "owner-memory", "owner-broker")
"""In this order: what egressd hands over to memoryd meanwhile is in both parts, and no label is lower than what the
other parts hold, since labels only rise and brokerd comes last.
"""
_PATIENCE_S: Final = 120.0
_PIECE_BYTES: Final = 1 << 20


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where it goes; or with --verify, which one")],
    with_credentials: Annotated[
        bool, typer.Option("--with-credentials", help="Keys too; whoever has the file has them then")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Make none: look whether FILE is whole")] = False,
    home: Home = None,
    json: Json = False,
) -> int:
    """Put everything that the box keeps into one file, while it works on. Exits 4 when a journal's chain is broken.

    The file is not encrypted. Keys are left out unless you ask for them. See bxctl restore.

    Example: bxctl backup ~/box.bxbackup
    """
    if verify:
        manifest, journals = look_through(file)
    else:
        manifest, journals = make(find(home), file, with_credentials=with_credentials)
    if json:
        render.as_json(_said(file, manifest, journals))
    else:
        _tell(file, manifest, journals)
    return exits.PROBLEMS if tell_broken(journals) else exits.OK


def make(box: Box, file: Path, *, with_credentials: bool) -> tuple[Manifest, list[JournalState]]:
    """Write a backup of a box that is up; what it holds, and the state of the journals in it.

    Raises:
        Fault: `home-missing`, `peer-unreachable`, `backup-failed`, `backup-changed`, and what a daemon says.

    """
    box.need()
    for row in ("owner-loop", *_PARTS):
        if not box.answers(row):
            raise Unreachable(box, row)
    journals: list[JournalState] = []
    made = stamp(now())
    with Writer(file) as writer, Progress("backup") as progress:
        for row in _PARTS:
            _part(writer, box, row, progress)
        for path in _own_paths(box.home, with_credentials=with_credentials):
            _own_file(writer, box.home, path, progress)

        def check(temporary: Path) -> None:
            with Archive(temporary) as archive:
                journals.extend(archive.verify())

        manifest = writer.finish(made, credentials=with_credentials, check=check)
    return manifest, journals


def look_through(file: Path) -> tuple[Manifest, list[JournalState]]:
    """What a backup holds, and the state of its journals, once every byte of it was looked at.

    Raises:
        Fault: `backup-invalid`, `home-newer`.

    """
    with Archive(file) as archive, Progress("verify", archive.manifest.size_bytes) as progress:
        return archive.manifest, archive.verify(progress.seen)


def tell_broken(journals: list[JournalState]) -> bool:
    """Say which chains are broken; whether one is."""
    broken = [one for one in journals if one.first_bad is not None]
    for one in broken:
        render.problem(f"{one.path} in it: the chain is broken at line {one.first_bad} (runbook: journal-damaged)")
    return bool(broken)


def _part(writer: Writer, box: Box, row: str, progress: Progress) -> None:
    daemon = socket(row).server
    answers = ask_stream(box.socket(row), Backup(), BackupFile, BackupPiece, BackupEnd, timeout_s=_PATIENCE_S)
    before = len(writer.files)
    answer = next(answers, None)
    while isinstance(answer, BackupFile):
        _expect(is_path(answer.path) and writer_of(answer.path) == daemon, daemon)
        stream = _Pieces(answers, progress)
        writer.add(answer.path, answer.size_bytes, answer.mtime_ns, stream)
        answer = stream.next
    if answer is None:
        raise Fault("peer-unreachable", f"{daemon} hung up in the middle of its part; see bxctl doctor")
    _expect(isinstance(answer, BackupEnd), daemon)
    _expect(answer.files == len(writer.files) - before, daemon)
    if answer.format != FORMAT:
        raise newer(answer.format, f"what {daemon} keeps")
    writer.journals += answer.journals


def _expect(sound: bool, daemon: str) -> None:
    if not sound:
        raise Fault("reply-unexpected", f"{daemon} sent what belongs in no backup")


class _Pieces:
    """The pieces of one file out of a stream; `next` is the answer that came after them."""

    def __init__(self, answers: Iterator[Any], progress: Progress) -> None:
        self._answers = answers
        self._progress = progress
        self.next: Any = None

    def __iter__(self) -> Iterator[bytes]:
        for answer in self._answers:
            if not isinstance(answer, BackupPiece):
                self.next = answer
                return
            self._progress.seen(len(answer.data))
            yield answer.data


def _own_paths(home: Path, *, with_credentials: bool) -> Iterator[str]:
    """The owner's files: what an editor wrote into folders, and files, in the order of the table."""
    for row in PATHS:
        if row.writer != OWNER or row.path in NOT_BACKED_UP or (row.path in CREDENTIALS and not with_credentials):
            continue
        if not row.path.endswith("/"):
            yield row.path
            continue
        for folder, folders, names in os.walk(home / row.path):
            folders.sort()
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            yield from (str(Path(folder, name).relative_to(home)) for name in sorted([*names, *links]))


def _own_file(writer: Writer, home: Path, path: str, progress: Progress) -> None:
    real = inside(home, path)
    if real is None or not is_path(path):
        if os.path.exists(home / path):
            # It is in force, and a box that is restored would be without it.
            render.problem(f"{escape(path)} is left out: it leads out of the home, or is no plain file of a plain name")
        return
    try:
        with real.open("rb") as file:
            found = os.fstat(file.fileno())
            data = file.read()
    except OSError as error:
        raise Fault("backup-failed", f"{real}: {error.strerror or error}") from None
    progress.seen(len(data))
    writer.add(
        path, len(data), found.st_mtime_ns, (data[at : at + _PIECE_BYTES] for at in range(0, len(data), _PIECE_BYTES))
    )


def _said(file: Path, manifest: Manifest, journals: list[JournalState]) -> dict[str, Any]:
    return {
        "file": str(file.absolute()),
        "made": manifest.made,
        "format": manifest.format,
        "credentials": manifest.credentials,
        "files": len(manifest.files),
        "size_bytes": manifest.size_bytes,
        "journals": journals,
    }


def _tell(file: Path, manifest: Manifest, journals: list[JournalState]) -> None:
    lines = sum(one.lines for one in journals)
    keys = "with keys" if manifest.credentials else "without keys"
    render.line(
        f"{file}: {len(manifest.files):,} files, {manifest.size_bytes:,} bytes, {keys}, made {manifest.made};"
        f" every digest is right, {lines:,} lines of journals looked at"
    )
