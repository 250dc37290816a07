"""The index's reading side: which rows may answer a question, and what is needed to rank them.

bm25 reads every row that holds any term of a question, so a common word costs seconds at a million rows. Terms are
therefore taken rarest first, as long as the rows that hold them stay within a budget; the others still count when the
candidates are ranked. Places that are left are filled from the newest rows that hold the rarest of the others.

Which rows these are is said by what they hold and when they were written, never by when they came into the index: of
rows that match alike the newest are taken, and among these the order of sessions and records decides.
"""

import time
from collections import Counter
from collections.abc import Collection, Generator, Iterable
from contextlib import closing
from datetime import datetime
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any, Final, Literal

import apsw

from memoryd.index.fold import match_expression
from memoryd.index.hits import Document, Frequencies, Row
from memoryd.index.store import MINUTE_IDS, UNTRUSTED_FROM, connect, damage_is_a_fault
from proto.labels import DataClass, Label

_BUDGET_ROWS: Final = 2_500
_COMMON_TERMS: Final = 4
_NEWEST_ROWS: Final = 500
_DEADLINE_S: Final = 0.25
# Instructions of SQLite's machine between two looks at the clock.
_STEPS: Final = 2_000
_MATCHING: Final = "FROM hits WHERE hits MATCH ? AND rowid BETWEEN ? AND ?"
_SEARCH: Final = {
    "best": f"SELECT rank, rowid {_MATCHING} ORDER BY rank",
    "newest": f"SELECT 0.0, rowid {_MATCHING} ORDER BY rowid DESC",
}
# Ranking looks at the beginning of a text and of its terms; what is beyond counts by FTS5 alone.
_LOOK_CHARS: Final = 6_000
_DOCUMENTS: Final = (
    f"SELECT sources.rowid, time, substr(author, 1, {_LOOK_CHARS}),"  # noqa: S608  (a number of this module)
    f" substr(shown.text, 1, {_LOOK_CHARS}), substr(hits.c0, 1, {_LOOK_CHARS}), octet_length(hits.c0) > {_LOOK_CHARS}"
    " FROM sources JOIN shown USING (rowid) JOIN hits_content AS hits ON hits.id = sources.rowid"
)


class Lookup:
    """Reads an index's file through a connection of its own."""

    def __init__(self, path: str) -> None:
        """Open the file.

        Raises:
            Fault: `memory-index-damaged`.

        """
        with damage_is_a_fault():
            self._connection = connect(path)
        self._connection.set_progress_handler(self._is_late, _STEPS)
        self._until_s = float("inf")

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def frequencies(self, terms: Iterable[str]) -> Frequencies:
        """How common each term is."""
        with damage_is_a_fault():
            execute = self._connection.execute
            totals: dict[Any, Any] = {name: value for name, value in execute("SELECT name, value FROM totals")}  # noqa: C416
            holding = {}
            for term in terms:
                found = execute("SELECT rows FROM terms WHERE term = ?", (term,)).fetchone()
                if found:
                    holding[term] = int(found[0])
        return Frequencies(rows=int(totals["rows"]), terms_total=int(totals["terms"]), holding=holding)

    def candidates(self, holding: dict[str, int], limit: int, *, untrusted: bool) -> list[int]:
        """The rows of one trust that best match any of the terms, by bm25, at most `limit`."""
        rarest = sorted(holding, key=lambda term: (holding[term], term))
        spent = list(accumulate(holding[term] for term in rarest))
        weighed = sum(rows <= _BUDGET_ROWS for rows in spent)
        with damage_is_a_fault():
            ranked = self._ranked(rarest[:weighed], limit, untrusted=untrusted) if weighed else []
            found = self._first(ranked, limit)
            if len(found) < limit and weighed < len(rarest):
                held = self._newest(rarest[weighed : weighed + _COMMON_TERMS], untrusted=untrusted)
                others = sorted((-terms, rowid) for rowid, terms in held.items() if rowid not in found)
                found += self._first(others, limit - len(found))
        return found

    def newest_first(self, rowids: Iterable[int]) -> list[int]:
        """Rows in an order that their sources alone give."""
        with damage_is_a_fault():
            return sorted(rowids, key=self._place)

    def passages(self, rowids: Collection[int], reach: int, terms: Collection[str] = ()) -> list[list[Document]]:
        """These rows and those near them: stretches of sessions in their order, each of one trust; a note stands alone.

        A stretch holds every row whose record is at most `reach` records from one of those asked for. Of these, the
        long ones know which of the terms they hold beyond their beginning.
        """
        passages: list[list[Document]] = []
        stretches: dict[tuple[str, bool], list[int]] = {}
        with damage_is_a_fault():
            for rowid in rowids:
                kind, session, record = self._one("SELECT kind, session, record FROM sources WHERE rowid = ?", rowid)
                if kind == "record":
                    stretches.setdefault((session, rowid >= UNTRUSTED_FROM), []).append(record)
                else:
                    row = self._one(f"{_DOCUMENTS} WHERE sources.rowid = ?", rowid)
                    passages.append([self._document(row, terms)])
            for (session, untrusted), records in stretches.items():
                for first, last in _merged(sorted(records), reach):
                    rows = self._stretch(session, untrusted, first, last)
                    passages.append([self._document(row, terms if row[0] in rowids else ()) for row in rows])
        return passages

    def _stretch(self, session: str, untrusted: bool, first: int, last: int) -> list[Any]:
        sql = (
            f"{_DOCUMENTS} WHERE kind = 'record' AND session = ? AND record BETWEEN ? AND ?"
            " AND (sources.rowid >= ?) = ? ORDER BY record, sources.rowid"
        )
        return self._connection.execute(sql, (session, first, last, UNTRUSTED_FROM, int(untrusted))).fetchall()

    def _document(self, row: Any, asked: Collection[str]) -> Document:
        rowid, moment, author, text, terms, is_cut = row
        if not is_cut:
            return Document(rowid, moment, author, text, f" {terms} ")
        spaced = f" {terms.rpartition(' ')[0]} "
        beyond = (term for term in asked if f" {term} " not in spaced and self._holds(rowid, term))
        return Document(rowid, moment, author, text, spaced, frozenset(beyond))

    def _holds(self, rowid: int, term: str) -> bool:
        sql = "SELECT 1 FROM hits WHERE hits MATCH ? AND rowid = ?"
        return self._connection.execute(sql, (match_expression([term]), rowid)).fetchone() is not None

    def row(self, rowid: int) -> Row:
        """A row with its source."""
        sql = (
            "SELECT kind, session, epoch, record, time, role, class, untrusted, author, file, text"
            " FROM sources JOIN shown USING (rowid) WHERE sources.rowid = ?"
        )
        with damage_is_a_fault():
            found = self._one(sql, rowid)
        kind, session, epoch, record, moment, role, class_, untrusted, author, file, text = found
        return Row(
            kind=kind,
            session=session,
            epoch=epoch,
            record=record,
            time=moment,
            role=role,
            label=Label(class_=DataClass(class_), untrusted=bool(untrusted)),
            author=author,
            file=file,
            text=text,
        )

    def _one(self, sql: str, rowid: int) -> Any:
        found = self._connection.execute(sql, (rowid,)).fetchone()
        if found is None:
            raise apsw.CorruptError("a row of hits has no source")
        return found

    def _place(self, rowid: int) -> tuple[float, str, int, str, int]:
        moment, *place = self._one("SELECT time, session, record, kind FROM sources WHERE rowid = ?", rowid)
        session, record, kind = place
        # Rows of one record are of one minute, and have their order in their ids.
        return (-datetime.fromisoformat(moment).timestamp(), session, record, kind, rowid)

    def _first(self, ranked: Iterable[tuple[float, int]], limit: int) -> list[int]:
        """At most so many of the rows of a ranking, its best first; of equals those that are newest, in any order."""
        found: list[int] = []
        by_minute = sorted((points, -(rowid // MINUTE_IDS), rowid) for points, rowid in ranked)
        for _, equals in groupby(by_minute, key=itemgetter(0, 1)):
            if len(found) >= limit:
                break
            rowids = [rowid for *_, rowid in equals]
            found += rowids if len(found) + len(rowids) <= limit else self.newest_first(rowids)[: limit - len(found)]
        return found

    def _ranked(self, terms: list[str], limit: int, *, untrusted: bool) -> list[tuple[float, int]]:
        """bm25 (less is better) and row id of the best rows, and of all that are as good as the last of them."""
        best: list[tuple[float, int]] = []
        with closing(self._search(terms, "best", untrusted=untrusted)) as rows:
            for points, rowid in rows:
                if len(best) >= limit and points > best[-1][0]:
                    break
                best.append((points, rowid))
        return best

    def _newest(self, terms: list[str], *, untrusted: bool) -> Counter[int]:
        """How many of these common terms the newest rows hold that hold any: those of whole minutes."""
        held: Counter[int] = Counter()
        for term in terms:
            minute = 0
            with closing(self._search([term], "newest", untrusted=untrusted)) as rows:
                for number, (_, rowid) in enumerate(rows):
                    if number >= _NEWEST_ROWS and rowid // MINUTE_IDS != minute:
                        break
                    minute = rowid // MINUTE_IDS
                    held[rowid] += 1
        return held

    def _search(
        self, terms: list[str], order: Literal["best", "newest"], *, untrusted: bool
    ) -> Generator[tuple[float, int]]:
        """Points and row ids that FTS5 finds, in an order; those that it found until the deadline, if that passes."""
        values = (match_expression(terms), *((UNTRUSTED_FROM, 1 << 62) if untrusted else (0, UNTRUSTED_FROM - 1)))
        self._until_s = time.monotonic() + _DEADLINE_S
        try:
            yield from self._connection.execute(_SEARCH[order], values)
        except apsw.InterruptError:
            pass
        finally:
            self._until_s = float("inf")

    def _is_late(self) -> bool:
        return time.monotonic() > self._until_s


def _merged(records: list[int], reach: int) -> list[tuple[int, int]]:
    """First and last record of the stretches that lie around sorted records, those that touch made one."""
    ends: list[tuple[int, int]] = []
    for record in records:
        if ends and record - reach <= ends[-1][1]:
            ends[-1] = (ends[-1][0], record + reach)
        else:
            ends.append((record - reach, record + reach))
    return ends
