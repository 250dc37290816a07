"""state/egressd/usage.sqlite3: one row for each metered call. The one door to apsw here.

A call's row is written when the call begins and settled when it ends, so that a crash leaves a row and never two.
"""

import os
from pathlib import Path
from typing import Final, Literal

import apsw
import msgspec

from egressd.meter.usage import Usage
from proto.escape import clip
from proto.faults import Fault
from proto.messages.egress import UsageRow

FILE: Final = "usage.sqlite3"
_FORMAT: Final = 1
_BUSY_MS: Final = 5_000
_LONGEST_MODEL_CHARS: Final = 120
_MOST_ROWS: Final = 1_000

_SCHEMA: Final = """
CREATE TABLE calls (
  call TEXT PRIMARY KEY,
  session TEXT NOT NULL,
  destination TEXT NOT NULL,
  model TEXT NOT NULL,
  status INTEGER,
  ended TEXT,
  partial INTEGER NOT NULL,
  began TEXT NOT NULL,
  finished TEXT,
  input_tokens INTEGER,
  output_tokens INTEGER,
  cache_read_tokens INTEGER,
  reasoning_tokens INTEGER
) STRICT;
CREATE INDEX calls_by_time ON calls (began);
CREATE INDEX calls_by_session ON calls (session, began);
"""

_USED: Final = """
SELECT destination, model, status, count(*), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens),
  'egress', 'metered', sum(partial), NULL, NULL, sum(reasoning_tokens)
FROM calls WHERE status IS NOT NULL AND began >= ? AND (? IS NULL OR session = ?)
GROUP BY destination, model, status
ORDER BY coalesce(sum(input_tokens), 0) + coalesce(sum(output_tokens), 0) DESC, count(*) DESC, 1, 2, 3
LIMIT ?
"""

Ended = Literal["complete", "refused", "failed", "client-left", "upstream-cut", "label-rose", "stopped"]
"""How a call ended; `complete` alone says that the whole answer was read."""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A call that begins; `began` is RFC 3339 in UTC."""

    call: str
    session: str
    destination: str
    model: str
    began: str


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """A call that has ended; `partial` says that the provider may have counted more than is known here."""

    call: str
    status: int
    ended: Ended
    partial: bool
    finished: str
    usage: Usage
    model: str | None


class UsageStore:
    """The rows; one connection, used by one thread."""

    def __init__(self, folder: Path) -> None:
        """Open or make the file in a folder.

        Raises:
            Fault: `egressd-start-failed`.

        """
        path = folder / FILE
        try:
            # sqlite3(1) makes a file as the umask says; this one is 0600 whatever that is.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._connection = apsw.Connection(str(path))
            self._connection.set_busy_timeout(_BUSY_MS)
            self._open()
        except (OSError, apsw.Error) as error:
            raise Fault("egressd-start-failed", f"{path}: {error}") from None

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def begin(self, call: Begun) -> None:
        """Keep that a call began."""
        # Committed to the kernel: it survives the daemon. The disk is waited for once a call, when it is settled.
        self._connection.pragma("synchronous", "normal")
        self._connection.execute(
            "INSERT INTO calls (call, session, destination, model, partial, began) VALUES (?, ?, ?, ?, 1, ?)",
            (call.call, call.session, call.destination, clip(call.model, _LONGEST_MODEL_CHARS), call.began),
        )

    def settle(self, call: Settled) -> None:
        """Keep how a call ended; on disk when this returns."""
        usage = call.usage
        model = None if call.model is None else clip(call.model, _LONGEST_MODEL_CHARS)
        counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.reasoning_tokens)
        self._connection.pragma("synchronous", "full")
        self._connection.execute(
            "UPDATE calls SET status = ?, ended = ?, partial = ?, finished = ?, model = coalesce(?, model),"
            " input_tokens = ?, output_tokens = ?, cache_read_tokens = ?, reasoning_tokens = ? WHERE call = ?",
            (call.status, call.ended, int(call.partial), call.finished, model, *counts, call.call),
        )

    def used(self, since: str, session: str | None) -> list[UsageRow]:
        """What was used by calls that began at a time (RFC 3339 in UTC) or after it, the most used first."""
        found = self._connection.execute(_USED, (since, session, session, _MOST_ROWS))
        return [msgspec.convert(dict(zip(UsageRow.__struct_fields__, row, strict=True)), UsageRow) for row in found]

    def settle_left(self, finished: str) -> int:
        """Settle what a crash left open, as partial; how many there were."""
        self._connection.execute(
            "UPDATE calls SET status = 0, ended = 'stopped', finished = ? WHERE ended IS NULL", (finished,)
        )
        return self._connection.changes()

    def _open(self) -> None:
        self._connection.pragma("journal_mode", "wal")
        version = self._connection.pragma("user_version")
        if version == 0:
            with self._connection:
                self._connection.execute(_SCHEMA)
                self._connection.pragma("user_version", _FORMAT)
        elif version != _FORMAT:
            raise apsw.SchemaChangeError(f"format {version}, and this egressd knows {_FORMAT}")
