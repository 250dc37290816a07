"""The index as the rest of memoryd sees it: keep up with logs and notes, answer a question, be made anew.

Calls may come from several threads. Writers wait for each other, recalls for each other, neither for the other; a
rebuild writes a file of its own, and holds both only while that file takes the old one's place.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from memoryd.index import logs
from memoryd.index.hits import Counts, NoteEntry, RecallAnswer, Row, UntrustedMode, note_row
from memoryd.index.lookup import Lookup
from memoryd.index.search import search
from memoryd.index.store import HeldNote, Store, digest, remove, remove_files, remove_journals
from memoryd.index.walk import LogProgress
from proto.faults import Fault
from proto.labels import DataClass

Breathe = Callable[[], None]
"""Called every few thousand records; what it raises ends the reading there, and what was read stays read."""
_NEW: Final = ".new"
# Logs that are read in one transaction, when all are.
_LOGS_TOGETHER: Final = 100


class Index:
    """The full-text index in one SQLite file, `{home}/index/memory.sqlite3`.

    Every method raises Fault `memory-index-damaged` while the file is damaged or cannot be opened, and OSError when the
    folder cannot be used; `rebuild` mends both the file and the object. Making one never fails on what has the file's
    name, only on the folder.
    """

    def __init__(
        self, path: str, *, max_class: DataClass = DataClass.PRIVATE, untrusted_mode: UntrustedMode = "mixed"
    ) -> None:
        self._path = path
        self._max_class = max_class
        self._untrusted_mode: UntrustedMode = untrusted_mode
        self._writing = threading.RLock()
        self._reading = threading.Lock()
        self._rebuilding = threading.Lock()
        self._store: Store | None = None
        self._lookup: Lookup | None = None
        self._notes: Sequence[NoteEntry] = ()
        # What the file is known to hold of notes.md; None while that must be looked up.
        self._held: tuple[NoteEntry, ...] | None = None
        self._damaged_logs: frozenset[str] = frozenset()
        remove_files(path + _NEW)
        try:
            self._open()
        except Fault:
            self._close()
        except OSError:
            if not os.path.lexists(path):
                raise
            self._close()

    def catch_up(self, sessions_dir: str, breathe: Breathe = lambda: None) -> Counts:
        """Read what is new in every log; forget the logs that are gone. Counts what was read now."""
        with self._writing:
            return self._catch_up(self._writer(), sessions_dir, breathe)

    def session_updated(self, session: str, sessions_dir: str) -> Counts:
        """Read what is new in one session's log; a log that is not there is no error."""
        with self._writing:
            records = sum(self._read_log(self._writer(), sessions_dir, session))
        return Counts(logs=1, records=records, notes=0, damaged=self._damaged({session}))

    def sync_notes(self, entries: Sequence[NoteEntry]) -> int:
        """Hold exactly these entries, the whole of notes.md in its order. Answers how many were new or changed.

        Entries before the first that differs from what is held cost a comparison each, the first time a digest.
        """
        with self._writing:
            self._notes = entries
            store = self._writer()
            held, self._held = self._held, None
            changed = self._sync_notes(store, entries, held)
            self._held = tuple(entries)
        return changed

    def recall(self, query: str, k: int) -> RecallAnswer:
        """At most `k` hits, best first, as the text that the model is given."""
        with self._reading:
            if self._lookup is None:
                raise Fault("memory-index-damaged")
            return search(self._lookup, query, k, self._untrusted_mode)

    def rebuild(self, sessions_dir: str, notes: Sequence[NoteEntry], breathe: Breathe = lambda: None) -> Counts:
        """Make the index anew from the logs and notes and put it in the old one's place. Counts what it holds.

        When `breathe` ends it, the old one stays.
        """
        with self._rebuilding:
            with self._writing:
                self._notes = notes
            remove_files(self._path + _NEW)
            new = Store(self._path + _NEW, self._max_class, bulk=True)
            try:
                self._catch_up(new, sessions_dir, breathe)
                self._sync_notes(new, notes, ())
                new.optimize()
                with self._writing:
                    return self._replace(new, sessions_dir)
            finally:
                new.close()
                remove_files(self._path + _NEW)

    def state(self) -> Counts:
        """What the index holds: logs and their records, entries of notes.md, and the logs with a damaged line."""
        with self._writing:
            store = self._writer()
            logs_read, records = store.records_read()
            notes = store.notes_held()
        return Counts(logs=logs_read, records=records, notes=notes, damaged=tuple(sorted(self._damaged_logs)))

    def close(self) -> None:
        """Let go of the file."""
        with self._writing, self._reading:
            self._close()

    def _open(self) -> None:
        self._store = Store(self._path, self._max_class)
        self._lookup = Lookup(self._path)

    def _close(self) -> None:
        if self._lookup is not None:
            self._lookup.close()
        if self._store is not None:
            self._store.close()
        self._lookup = self._store = None

    def _writer(self) -> Store:
        if self._store is None:
            raise Fault("memory-index-damaged")
        return self._store

    def _replace(self, new: Store, sessions_dir: str) -> Counts:
        """Read what came since the new file was begun, and rename it over the old one."""
        self._catch_up(new, sessions_dir, lambda: None)
        self._sync_notes(new, self._notes, None)
        logs_read, records = new.records_read()
        notes = new.notes_held()
        new.close()
        with self._reading:
            self._close()
            remove_journals(self._path)
            if os.path.isdir(self._path):
                remove(self._path)
            os.rename(self._path + _NEW, self._path)
            self._open()
            self._held = tuple(self._notes)
        return Counts(logs=logs_read, records=records, notes=notes, damaged=tuple(sorted(self._damaged_logs)))

    def _catch_up(self, store: Store, sessions_dir: str, breathe: Breathe) -> Counts:
        sessions = logs.sessions_with_logs(sessions_dir)
        gone = {logs.session_of(log) for log in store.known_logs()}.difference(sessions)
        records = 0
        for some in _batches([*sessions, *sorted(gone)]):
            read = (count for session in some for count in self._read_log(store, sessions_dir, session))
            ended: BaseException | None = None
            with store.transaction(), contextlib.closing(read):
                for count in read:
                    records += count
                    if ended := _raised_by(breathe):
                        break
            if ended is not None:
                raise ended
        return Counts(logs=len(sessions), records=records, notes=0, damaged=self._damaged(sessions))

    def _read_log(self, store: Store, sessions_dir: str, session: str) -> Iterator[int]:
        """Read what is new in a log, piece by piece; how many records each had, and 0 at the end."""
        name = logs.log_name(session)
        damaged = False
        try:
            with logs.opened(sessions_dir, session) as log:
                progress = store.log_progress(name)
                if not logs.continues(log, progress):
                    with store.transaction():
                        store.forget_log(name, session)
                    progress = LogProgress()
                before = progress.state.records
                for piece in logs.pieces(log, session, progress):
                    damaged = piece.damaged
                    with store.transaction():
                        store.add(self._indexable(piece.rows))
                        store.set_log_progress(name, piece.progress)
                    read, before = piece.progress.state.records - before, piece.progress.state.records
                    yield read
        except FileNotFoundError:
            with store.transaction():
                store.forget_log(name, session)
        except OSError:
            damaged = True
        self._damaged_logs = self._damaged_logs - {session} | ({session} if damaged else set())
        yield 0

    def _sync_notes(self, store: Store, entries: Sequence[NoteEntry], held: Sequence[NoteEntry] | None) -> int:
        """Make a store hold these entries; `held` are those that it holds, if that is known."""
        count = store.notes_held()
        if held is None:
            same = _alike(store.note_digests(), [_note_digest(entry) for entry in entries])
        else:
            same = _alike(held, entries)
        if same == count == len(entries):
            return 0
        rows = [note_row(entry) for entry in entries[same:]]
        indexable = self._indexable(rows)
        with store.transaction():
            store.remove(store.note_rowids(same))
            rowids = dict(zip((row.record for row in indexable), store.add(indexable), strict=True))
            notes = [HeldNote(_note_digest(entry), rowids.get(entry.position)) for entry in entries[same:]]
            store.hold_notes(same, notes)
        return len(notes)

    def _indexable(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if row.label.class_.rank <= self._max_class.rank]

    def _damaged(self, sessions: Sequence[str] | set[str]) -> tuple[str, ...]:
        return tuple(sorted(self._damaged_logs.intersection(sessions)))


def _alike(first: Sequence[object], second: Sequence[object]) -> int:
    """How many values two sequences have in common from their beginning."""
    shorter = min(len(first), len(second))
    # All of them, after an append: comparing them at once is faster than one by one.
    if list(first[:shorter]) == list(second[:shorter]):
        return shorter
    return next(at for at in range(shorter) if first[at] != second[at])


def _raised_by(breathe: Breathe) -> BaseException | None:
    """What ends the reading, if anything: it is raised once what was read is on disk."""
    try:
        breathe()
    except BaseException as ended:  # noqa: BLE001  (a cancelled task is none of the usual errors)
        return ended
    return None


def _batches(sessions: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(sessions), _LOGS_TOGETHER):
        yield sessions[first : first + _LOGS_TOGETHER]


def _note_digest(entry: NoteEntry) -> bytes:
    label = entry.label
    said = (entry.how, entry.time, entry.session, entry.file, label.class_.value, label.untrusted, entry.text)
    return digest(entry.position, *said)
