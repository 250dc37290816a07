"""What every framed socket has: `ping`, `ok`, `error`, and the bases of what is asked, answered and told."""

import msgspec

from proto.faults import Fault
from proto.ids import TraceParent


class Traced(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What belongs to a trace; `trace` is a W3C traceparent."""

    trace: TraceParent | None = None


class Request(Traced, frozen=True, tag_field="kind"):
    """The base of what may be asked."""


class Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """The base of what may be answered; every field is written."""


class Datagram(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """The base of what is told in a datagram and never answered."""


class Ping(Request, frozen=True, tag="ping"):
    """Asks whether the daemon answers."""


class Ok(Reply, frozen=True, tag="ok"):
    """Done, and on disk where there was something to write."""


class Error(Reply, frozen=True, tag="error"):
    """The frame, the peer or the daemon was at fault; `runbook` names an entry of docs/runbook.md."""

    code: str
    message: str
    runbook: str | None


class Verify(Request, frozen=True, tag="verify"):
    """Asks memoryd or brokerd to check the chains of its journals."""


class JournalState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a journal: its lines, the hash of the last, and the number (from 1) of the first bad line."""

    path: str
    lines: int
    head: str
    first_bad: int | None


class VerifyReply(Reply, frozen=True, tag="verify_reply"):
    """The state of each journal file, oldest first."""

    journals: list[JournalState]


class Backup(Request, frozen=True, tag="backup"):
    """Asks a daemon for its part of a backup: `backup_file` and `backup_piece` again and again, `backup_end` last."""


class BackupFile(Reply, frozen=True, tag="backup_file"):
    """A file begins: its path under the home, its size, when it was changed last. The pieces that follow are its."""

    path: str
    size_bytes: int
    mtime_ns: int


class BackupPiece(Reply, frozen=True, tag="backup_piece"):
    """The next bytes of the file that was begun last."""

    data: bytes


class ChainedJournal(msgspec.Struct, frozen=True, kw_only=True):
    """A chained journal of a part: its file, or the folder whose `.jsonl` files are one chain in the order of their
    names; the file with its head; the fields whose texts the chain has by digest.
    """

    path: str
    heads: str
    text_fields: list[str]


class BackupEnd(Reply, frozen=True, tag="backup_end"):
    """The part is whole: the format of it, how many files it has, and the journals in it that are chained."""

    format: int
    files: int
    journals: list[ChainedJournal]


def error_of(fault: Fault) -> Error:
    """The error frame that tells of a fault."""
    return Error(code=fault.code, message=fault.message, runbook=fault.runbook)
