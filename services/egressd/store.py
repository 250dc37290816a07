"""state/egressd/usage.sqlite3: a row for each metered call, each tunnel, each harness's own count. apsw's door here.

A call's row is in the file before the call leaves, and settled when it ends: a crash leaves a row and never two.
"""

import errno
import os
from pathlib import Path
from typing import Any, Final, Literal

import apsw
import msgspec

from egressd import schema
from egressd.meter.usage import Usage
from egressd.spend import Amount
from proto.escape import clip
from proto.faults import Fault
from proto.messages.egress import Billing, CostRow, HarnessUsage, UsageRow
from proto.role import durable
from proto.role.backup import Taken

FILE: Final = "usage.sqlite3"
_BUSY_MS: Final = 5_000
_LONGEST_MODEL_CHARS: Final = 120
_MOST_MODELS: Final = 10
"""Of one session's unpriced models in an answer, which is one frame."""

Ended = Literal["complete", "refused", "failed", "client-left", "upstream-cut", "label-rose", "stopped"]
"""How a call ended; `complete` alone says that the whole answer was read."""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A call that begins; `began` is RFC 3339 in UTC, `counted` what is reserved for it.

    A tunnel has `TUNNEL` for its API, and the host and port for its model.
    """

    call: str
    session: str
    destination: str
    model: str
    began: str
    api: str
    auth: str
    billing: Billing
    counted: Amount = Amount()


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """A call that has ended; `partial` says that the provider may have counted more than is known here.

    `nusd` is the price of what it used in nano-dollars, None where it has none; `counted` what limits of spend count.
    """

    call: str
    status: int
    ended: Ended
    partial: bool
    finished: str
    usage: Usage
    model: str | None
    nusd: int | None = None
    counted: Amount = Amount()
    up_bytes: int | None = None
    down_bytes: int | None = None


class UsageStore:
    """The rows; one connection, used by one thread.

    Rows that are kept at about the same time are written together, which costs a third. What is written outlives the
    daemon however it ends. What the disk has, after the machine lost its power, is what was there at the last `sync`.
    """

    def __init__(self, folder: Path) -> None:
        """Open or make the file in a folder.

        Raises:
            Fault: `egressd-start-failed`.

        """
        path = self._path = folder / FILE
        durable.sweep_temporaries(folder)
        try:
            # sqlite3(1) makes a file as the umask says; this one is 0600 whatever that is.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._connection = apsw.Connection(str(path))
            self._connection.set_busy_timeout(_BUSY_MS)
            self._open()
            self._is_written = True
            self._unwritten: set[str] = set()
            """Calls that began, and their rows are not written yet."""
            self._lost: set[str] = set()
            """Calls that began, and the file did not take their rows."""
        except (OSError, apsw.Error) as error:
            raise Fault("egressd-start-failed", f"{path}: {error}") from None

    def close(self) -> None:
        """Write what is kept, and close the file."""
        try:
            self.write()
        finally:
            self._connection.close()

    def begin(self, call: Begun) -> None:
        """Keep that a call began."""
        self._keep(
            "INSERT INTO calls (call, source, session, destination, api, auth, billing, model, partial, began,"
            " counted_tokens, counted_nusd) VALUES (?, 'egress', ?, ?, ?, ?, ?, ?, 1, ?, ?, ?)",
            (
                call.call,
                call.session,
                call.destination,
                call.api,
                call.auth,
                call.billing,
                clip(call.model, _LONGEST_MODEL_CHARS),
                call.began,
                call.counted.tokens,
                call.counted.nusd or 0,
            ),
        )
        self._unwritten.add(call.call)

    def settle(self, call: Settled) -> None:
        """Keep how a call ended."""
        self._lost.discard(call.call)
        self._unwritten.discard(call.call)
        self._keep(
            schema.SETTLED,
            {
                "call": call.call,
                "status": call.status,
                "ended": call.ended,
                "partial": int(call.partial),
                "finished": call.finished,
                "model": None if call.model is None else clip(call.model, _LONGEST_MODEL_CHARS),
                "nusd": call.nusd,
                "counted_tokens": call.counted.tokens,
                "counted_nusd": call.counted.nusd or 0,
                "up_bytes": call.up_bytes,
                "down_bytes": call.down_bytes,
                **msgspec.structs.asdict(call.usage),
            },
        )

    def report(self, usage: HarnessUsage, now: str) -> None:
        """Keep a harness's own count; one that comes again takes the place of the earlier. On disk when it returns."""
        told = {**msgspec.structs.asdict(usage), "model": clip(usage.model, _LONGEST_MODEL_CHARS)}
        self._keep(schema.REPORTED, {**told, "now": now})
        self.write()
        self.sync()

    def write(self) -> None:
        """Write what is kept.

        Raises:
            OSError: the file does not take it, and none of it is kept any more.

        """
        if self._is_written:
            return
        try:
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._lose()
            raise OSError(errno.EIO, f"the rows cannot be written: {error}", str(self._path)) from None
        self._is_written = True
        self._unwritten.clear()

    def has_written(self, call: str) -> bool:
        """Whether the row of a call that began, and has not ended, is in the file."""
        return call not in self._unwritten and call not in self._lost

    def sync(self) -> None:
        """Wait until the disk has all that was written before; in any thread.

        Raises:
            OSError: it has not.

        """
        log = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(log)
        finally:
            os.close(log)

    def used(self, since: str, session: str | None, *, by_day: bool = False) -> list[UsageRow]:
        """What was used by calls that began at a time (RFC 3339 in UTC) or after it, the most used first."""
        found = self._rows(schema.USED, {"since": since, "session": session, "by_day": int(by_day)})
        return [msgspec.convert(row, UsageRow) for row in found]

    def costs(self, since: str, session: str | None) -> tuple[list[CostRow], int]:
        """What sessions cost, the dearest first, and the sum of all of them in nano-dollars."""
        asked = {"since": since, "session": session}
        total = int(self._one(schema.TOTAL, asked)[0])
        rows = [
            msgspec.convert(
                {**row, "unpriced_models": sorted(msgspec.json.decode(row["unpriced_models"]))[:_MOST_MODELS]}, CostRow
            )
            for row in self._rows(schema.COSTS, asked)
        ]
        return rows, total

    def models(self) -> list[tuple[str, str]]:
        """Every model that answered, by destination and name."""
        return [(row["destination"], row["model"]) for row in self._rows(schema.MODELS, {})]

    def spent_by(self, session: str, destination: str) -> Amount:
        """What limits of spend count of a session at a destination, with what is reserved there."""
        return Amount(*self._one(schema.OF_SESSION, (session, destination)))

    def spent_on(self, day: str, destination: str) -> Amount:
        """What limits of spend count of all sessions at a destination on a day of UTC (`2026-09-24`)."""
        # No character of a time comes after `T` but in a later day.
        return Amount(*self._one(schema.OF_DAY, (destination, f"{day}T", f"{day}U")))

    def calls_of(self, session: str) -> int:
        """How many model calls of a session there are, as the egress saw them."""
        return int(self._one(schema.COUNT_OF, (session,))[0])

    def settle_left(self, finished: str) -> int:
        """Settle what a crash left open, as partial, and counted as reserved; how many there were."""
        self._connection.execute(schema.LEFT, (finished,))
        return self._connection.changes()

    def copied(self, home: Path) -> Taken:
        """The rows as they are at this moment, for a backup; from any thread, while calls go on.

        Raises:
            OSError: the disk refuses.

        """
        path = durable.write_temporary(self._path, b"")
        try:
            # VACUUM INTO takes an empty file, and reads one snapshot while others write (sqlite.org/lang_vacuum.html).
            connection = apsw.Connection(str(self._path))
            connection.set_busy_timeout(_BUSY_MS)
            connection.execute("VACUUM INTO ?", (str(path),))
            connection.close()
            file = path.open("rb")
        except apsw.Error as error:
            raise OSError(errno.EIO, f"the rows cannot be copied: {error}", str(self._path)) from None
        finally:
            path.unlink(missing_ok=True)
        found = os.fstat(file.fileno())
        return Taken(str(self._path.relative_to(home)), file, found.st_size, found.st_mtime_ns)

    def _keep(self, statement: str, values: Any) -> None:
        """Change a row; the file has it with the next `write`."""
        if self._is_written:
            self._connection.execute("BEGIN IMMEDIATE")
            self._is_written = False
        try:
            self._connection.execute(statement, values)
        except BaseException:
            # Some failures of one statement undo all of them (sqlite.org/lang_transaction.html).
            if not self._connection.in_transaction:
                self._lose()
            raise

    def _lose(self) -> None:
        """What was kept and not written is undone."""
        self._is_written = True
        self._lost |= self._unwritten
        self._unwritten.clear()

    def _one(self, query: str, values: Any) -> tuple[Any, ...]:
        """The one row of a sum."""
        (row,) = self._connection.execute(query, values)
        return tuple(row)

    def _rows(self, query: str, values: dict[str, Any]) -> list[dict[str, Any]]:
        cursor = self._connection.execute(query, values)
        return [
            {column[0]: value for column, value in zip(cursor.get_description(), row, strict=True)} for row in cursor
        ]

    def _open(self) -> None:
        # What is committed is with the kernel and survives the daemon; `sync` waits for the disk, once for many.
        self._connection.pragma("journal_mode", "wal")
        self._connection.pragma("synchronous", "normal")
        version = self._connection.pragma("user_version")
        if version == schema.FORMAT:
            return
        if version not in (0, 1):
            raise apsw.SchemaChangeError(f"format {version}, and this egressd knows {schema.FORMAT}")
        with self._connection:
            if version == 1:
                self._connection.execute("DROP INDEX calls_by_time; DROP INDEX calls_by_session")
                self._connection.execute("ALTER TABLE calls RENAME TO calls_1")
            self._connection.execute(schema.SCHEMA)
            if version == 1:
                self._connection.execute(schema.FROM_1)
            self._connection.pragma("user_version", schema.FORMAT)
