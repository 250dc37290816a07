"""The index's SQLite file: its schema, its writer, its damage. The one door to apsw in this holding.

The file is disposable. One connection writes, another reads, so that a recall waits for no catching up; each is used
by one thread at a time. What belongs together is written in one transaction: the rows of a log with how far it was
read. A damaged file raises `memory-index-damaged` from every call, until a new one is put in its place.

A row id says when a text was written, to the minute, and those of untrusted rows begin at `UNTRUSTED_FROM`: FTS5 keeps
a term's rows in that order, so the newest are found without reading the others, whenever they came into the index, and
either kind of trust is searched without the other: no flood of one hides the other.

Source: M5a section 6 for `hits`, `sources` and `progress`; the other tables are this build's.
"""

import contextlib
import errno
import hashlib
import itertools
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import apsw
import msgspec

from memoryd.index.fold import FOLDING, fold
from memoryd.index.hits import Row
from memoryd.index.walk import LogProgress, WalkState
from proto.faults import Fault
from proto.labels import DataClass, Label

UNTRUSTED_FROM: Final = 1 << 46
# Row ids of one minute. When they are used up, those of the next are taken.
MINUTE_IDS: Final = 1 << 12
_FORMAT: Final = 2
# Rows are written in the order of their ids, as many together as these allow.
_WAITING_ROWS: Final = 5_000
_WAITING_CHARS: Final = 1 << 23
_BUSY_MS: Final = 5_000
_CACHE_KIB: Final = 32_768

_SCHEMA: Final = """
CREATE VIRTUAL TABLE hits USING fts5(text, tokenize = 'unicode61');
CREATE TABLE sources (rowid INTEGER PRIMARY KEY, kind TEXT, session TEXT, epoch INTEGER,
  record INTEGER, time TEXT, role TEXT, class TEXT, untrusted INTEGER);
CREATE TABLE progress (log TEXT PRIMARY KEY, records INTEGER);
-- The text as it was written (`hits` holds its terms), and what a source line names.
CREATE TABLE shown (rowid INTEGER PRIMARY KEY, author TEXT, file TEXT, text TEXT);
-- Where each log's walk stands: the bytes read, a digest of the last of them, the session's label.
CREATE TABLE walks (log TEXT PRIMARY KEY, bytes INTEGER, tail BLOB, class TEXT, untrusted INTEGER);
-- Which entries of notes.md are held, in its order. `hit` is null for one that is not indexed.
CREATE TABLE notes (position INTEGER PRIMARY KEY, digest BLOB, hit INTEGER);
-- How many rows hold a term. `fts5vocab` would count them anew for every question.
CREATE TABLE terms (term TEXT PRIMARY KEY, rows INTEGER) WITHOUT ROWID;
CREATE TABLE totals (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE INDEX turns ON sources (session, record) WHERE kind = 'record';
INSERT INTO hits (hits, rank) VALUES ('secure-delete', 1);
INSERT INTO totals VALUES ('rows', 0), ('terms', 0);
"""


class HeldNote(msgspec.Struct, frozen=True):
    """An entry of notes.md that the index holds: the digest of all that it says, and its row, if it is indexed."""

    digest: bytes
    rowid: int | None


_DAMAGE: Final = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.IOError)


@contextlib.contextmanager
def damage_is_a_fault() -> Iterator[None]:
    """Turn damage of the file into `memory-index-damaged`, and a full disk or a closed folder into OSError."""
    try:
        yield
    except apsw.FullError as error:
        raise OSError(errno.ENOSPC, "no space left for the index") from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as error:
        raise OSError(errno.EACCES, "the index cannot be opened") from error
    except _DAMAGE as error:
        raise Fault("memory-index-damaged") from error
    except apsw.SQLError as error:
        # SQLite has ended the transaction by itself, and then there is nothing to roll back.
        if isinstance(error.__context__, _DAMAGE):
            raise Fault("memory-index-damaged") from error
        raise


def remove_files(path: str) -> None:
    """Remove an index's file and what SQLite keeps beside it."""
    remove_journals(path)
    remove(path)


def remove_journals(path: str) -> None:
    """Remove what SQLite keeps beside a file that nobody has open, so that it is not taken for another file's."""
    for end in ("-wal", "-shm", "-journal"):
        remove(path + end)


def remove(path: str) -> None:
    """Remove what has this name. A folder is somebody's: it gets another name beside it."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            return
        names = (f"{path}.aside-{number}" for number in itertools.count(1))
        os.rename(path, next(name for name in names if not os.path.lexists(name)))


def connect(path: str) -> apsw.Connection:
    """A connection to an index that is there."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(_BUSY_MS)
    # No mmap: a file that is cut short under a mapping ends the process.
    cache = f"cache_size = -{_CACHE_KIB}"
    for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "temp_store = MEMORY", "secure_delete = ON", cache):
        connection.execute(f"PRAGMA {pragma}")
    return connection


class Store:
    """The writing side of an index's file."""

    def __init__(self, path: str, max_class: DataClass, *, bulk: bool = False) -> None:
        """Open the file; make it, when it is missing or is of another format, folding or `max_class`.

        With `bulk` nothing is secured on the way: for a file that counts only once it is whole.

        Raises:
            Fault: `memory-index-damaged`; what has the file's name may be no file.
            OSError: it cannot be opened, or its folder cannot be used.

        """
        settings = {"format": str(_FORMAT), "folding": str(FOLDING), "max_class": max_class.value}
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if os.path.lexists(path) and not os.path.isfile(path):
            raise Fault("memory-index-damaged")
        if not os.path.exists(path) or not _is_current(path, settings):
            remove_files(path)
        with damage_is_a_fault():
            self._connection = connect(path) if os.path.exists(path) else _create(path, settings)
            if bulk:
                self._connection.execute("PRAGMA synchronous = OFF")
        # What the open transaction has given away and not written yet.
        self._waiting: list[tuple[int, Row]] = []
        self._waiting_chars = 0
        # The next row id of each minute that the open transaction writes to.
        self._free: dict[int, int] = {}
        # What it changes in `terms` and `totals`: many rows hold the same terms.
        self._term_changes: Counter[str] = Counter()
        self._total_changes: Counter[str] = Counter()

    def close(self) -> None:
        """Write everything into the one file, and let go of it."""
        self._connection.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing. One inside another is a part of it."""
        outermost = not self._connection.in_transaction
        try:
            with damage_is_a_fault(), self._connection:
                yield
                if outermost:
                    self._write_waiting()
                    self._write_counts()
        finally:
            if outermost:
                self._waiting.clear()
                self._waiting_chars = 0
                self._free.clear()
                self._term_changes.clear()
                self._total_changes.clear()

    def add(self, rows: Sequence[Row]) -> list[int]:
        """Add rows, before the transaction ends; their row ids, in the order given."""
        rowids = [self._new_rowid(row) for row in rows]
        self._waiting += zip(rowids, rows, strict=True)
        self._waiting_chars += sum(len(row.text) for row in rows)
        if len(self._waiting) > _WAITING_ROWS or self._waiting_chars > _WAITING_CHARS:
            self._write_waiting()
        return rowids

    def remove(self, rowids: Iterable[int]) -> None:
        """Remove rows and everything kept of them."""
        self._write_waiting()
        for rowid in rowids:
            text = self._value("SELECT text FROM hits WHERE rowid = ?", rowid)
            terms = str(text).split()
            for table in ("hits", "sources", "shown"):
                self._connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))  # noqa: S608  (three names above)
            self._count(terms, -1)

    def log_progress(self, log: str) -> LogProgress:
        """How far a log was read; nothing of one that is not known."""
        found = self._row(
            "SELECT records, bytes, tail, class, untrusted FROM progress JOIN walks USING (log) WHERE log = ?", log
        )
        if found is None:
            return LogProgress()
        records, bytes_read, tail, class_, untrusted = found
        label = Label(class_=DataClass(class_), untrusted=bool(untrusted))
        return LogProgress(bytes_read=bytes_read, tail=tail, state=WalkState(records=records, label=label))

    def set_log_progress(self, log: str, progress: LogProgress) -> None:
        """Keep how far a log was read."""
        state, label = progress.state, progress.state.label
        self._connection.execute("INSERT OR REPLACE INTO progress VALUES (?, ?)", (log, state.records))
        self._connection.execute(
            "INSERT OR REPLACE INTO walks VALUES (?, ?, ?, ?, ?)",
            (log, progress.bytes_read, progress.tail, label.class_.value, int(label.untrusted)),
        )

    def forget_log(self, log: str, session: str) -> None:
        """Remove every row of a session's log, and how far it was read."""
        self._write_waiting()
        found = self._rows("SELECT rowid FROM sources WHERE kind = 'record' AND session = ?", session)
        self.remove([rowid for (rowid,) in found])
        self._connection.execute("DELETE FROM progress WHERE log = ?", (log,))
        self._connection.execute("DELETE FROM walks WHERE log = ?", (log,))

    def known_logs(self) -> list[str]:
        """The logs that were read, by name."""
        with damage_is_a_fault():
            return [log for (log,) in self._rows("SELECT log FROM progress ORDER BY log")]

    def records_read(self) -> tuple[int, int]:
        """How many logs were read, and how many records of them."""
        with damage_is_a_fault():
            logs, records = self._row("SELECT count(*), coalesce(sum(records), 0) FROM progress") or (0, 0)
        return int(logs), int(records)

    def notes_held(self) -> int:
        """How many entries of notes.md the index holds."""
        with damage_is_a_fault():
            return int(self._value("SELECT count(*) FROM notes"))

    def note_digests(self) -> list[bytes]:
        """The digests of the entries of notes.md that the index holds, in its order."""
        with damage_is_a_fault():
            return [held for (held,) in self._rows("SELECT digest FROM notes ORDER BY position")]

    def note_rowids(self, position: int) -> list[int]:
        """The rows of the entries of notes.md from a position on."""
        found = self._rows("SELECT hit FROM notes WHERE position >= ? AND hit IS NOT NULL", position)
        return [rowid for (rowid,) in found]

    def hold_notes(self, position: int, notes: Sequence[HeldNote]) -> None:
        """Hold these entries from a position on, and none after them."""
        self._connection.execute("DELETE FROM notes WHERE position >= ?", (position,))
        numbered = [(at, note.digest, note.rowid) for at, note in enumerate(notes, position)]
        self._connection.executemany("INSERT INTO notes VALUES (?, ?, ?)", numbered)

    def optimize(self) -> None:
        """Merge what a rebuild wrote in many parts: questions then read one."""
        with damage_is_a_fault():
            self._connection.execute("INSERT INTO hits (hits) VALUES ('optimize')")

    def _write_waiting(self) -> None:
        # FTS5 writes out what it gathered when a row id is smaller than the one before it.
        for rowid, row in sorted(self._waiting, key=lambda pair: pair[0]):
            # Who said it can be asked for like what was said.
            terms = fold(f"{row.author} {row.text}" if row.author else row.text)
            self._count(terms, 1)
            self._insert(rowid, row, terms)
        self._waiting.clear()
        self._waiting_chars = 0

    def _new_rowid(self, row: Row) -> int:
        minute = first_rowid(row.time, untrusted=row.label.untrusted)
        while self._free_rowid(minute) == minute + MINUTE_IDS:
            minute += MINUTE_IDS
        self._free[minute] += 1
        return self._free[minute] - 1

    def _free_rowid(self, minute: int) -> int:
        """The next row id of a minute, which is given by its first."""
        if minute not in self._free:
            last = "SELECT max(rowid) FROM sources WHERE rowid BETWEEN ? AND ?"
            found = self._value(last, minute, minute + MINUTE_IDS - 1)
            self._free[minute] = minute if found is None else int(found) + 1
        return self._free[minute]

    def _insert(self, rowid: int, row: Row, terms: list[str]) -> None:
        execute = self._connection.execute
        execute("INSERT INTO hits (rowid, text) VALUES (?, ?)", (rowid, " ".join(terms)))
        label = (row.label.class_.value, int(row.label.untrusted))
        source = (row.kind, row.session, row.epoch, row.record, row.time, row.role, *label)
        execute("INSERT INTO sources VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (rowid, *source))
        execute("INSERT INTO shown VALUES (?, ?, ?, ?)", (rowid, row.author, row.file, row.text))

    def _count(self, terms: list[str], change: int) -> None:
        if change > 0:
            self._term_changes.update(set(terms))
        else:
            self._term_changes.subtract(set(terms))
        self._total_changes["rows"] += change
        self._total_changes["terms"] += change * len(terms)

    def _write_counts(self) -> None:
        self._connection.executemany(
            "INSERT INTO terms VALUES (?, ?) ON CONFLICT (term) DO UPDATE SET rows = rows + excluded.rows",
            sorted((term, change) for term, change in self._term_changes.items() if change),
        )
        gone = [(term,) for term, change in self._term_changes.items() if change < 0]
        self._connection.executemany("DELETE FROM terms WHERE term = ? AND rows <= 0", gone)
        changes = [(change, name) for name, change in self._total_changes.items()]
        self._connection.executemany("UPDATE totals SET value = value + ? WHERE name = ?", changes)

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

    def _row(self, sql: str, *values: Any) -> Any:
        return self._connection.execute(sql, values).fetchone()

    def _value(self, sql: str, *values: Any) -> Any:
        found = self._row(sql, *values)
        return None if found is None else found[0]


def first_rowid(time: str, *, untrusted: bool) -> int:
    """The first row id of the minute of an RFC 3339 time; all that is older than 1970 is alike."""
    minutes = max(0, int(datetime.fromisoformat(time).timestamp()) // 60)
    return (UNTRUSTED_FROM if untrusted else 0) + minutes * MINUTE_IDS


def digest(*parts: object) -> bytes:
    """16 bytes that stand for some values."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


def _create(path: str, settings: dict[str, str]) -> apsw.Connection:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = connect(path)
    with connection:
        for _ in connection.execute(_SCHEMA):
            pass
        connection.executemany("INSERT INTO settings VALUES (?, ?)", list(settings.items()))
    return connection


def _is_current(path: str, settings: dict[str, str]) -> bool:
    """Whether an index's file can be used as it is.

    Raises:
        Fault: `memory-index-damaged`.

    """
    if os.path.getsize(path) == 0:
        return False
    with damage_is_a_fault(), contextlib.closing(apsw.Connection(path)) as connection:
        try:
            found: list[Any] = connection.execute("SELECT name, value FROM settings").fetchall()
        except apsw.SQLError:  # no such table: what another program or version made
            return False
        return dict(found) == settings
