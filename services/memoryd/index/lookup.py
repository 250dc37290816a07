"""The index's reading side: which rows may answer a question, and what is needed to rank them.

bm25 reads every row that holds any term of a question, so a common word costs seconds at a million rows. Terms are
therefore taken rarest first, as long as the rows that hold them stay within a budget; the others still count when the
candidates are ranked. When even the rarest term is over the budget, the newest rows that hold it are the candidates.
"""

import time
from collections.abc import Iterable
from typing import Any, Final

import apsw
import msgspec

from memoryd.index.fold import match_expression
from memoryd.index.hits import Row
from memoryd.index.store import UNTRUSTED_FROM, connect, damage_is_a_fault
from proto.labels import DataClass, Label

_BUDGET_ROWS: Final = 4_500
_DEADLINE_S: Final = 0.25
# Instructions of SQLite's machine between two looks at the clock.
_STEPS: Final = 2_000
_DOCUMENTS: Final = (
    "SELECT sources.rowid, author, shown.text, hits.c0 FROM sources"
    " JOIN shown USING (rowid) JOIN hits_content AS hits ON hits.id = sources.rowid"
)


class Document(msgspec.Struct, frozen=True):
    """A row as ranking sees it. `terms` are those of its author and text, in their order."""

    rowid: int
    author: str | None
    text: str
    terms: list[str]


class Frequencies(msgspec.Struct, frozen=True):
    """How many rows there are, how many terms all hold together, and how many rows hold each term asked for."""

    rows: int
    terms_total: int
    holding: dict[str, int]


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
        terms, spent = [], 0
        for term, rows in sorted(holding.items(), key=lambda pair: (pair[1], pair[0])):
            if spent + rows > _BUDGET_ROWS:
                break
            terms.append(term)
            spent += rows
        with damage_is_a_fault():
            if found := self._search(terms, "rank", limit, untrusted=untrusted) if terms else []:
                return found
            # What is left is in more rows than can be weighed.
            rest = sorted(holding, key=lambda term: (holding[term], term))[len(terms) :]
            return self._search(rest[:1], "rowid DESC", limit, untrusted=untrusted) if rest else []

    def passages(self, rowids: Iterable[int], reach: int) -> list[list[Document]]:
        """These rows and those near them: stretches of sessions in their order, each of one trust; a note stands alone.

        A stretch holds every row whose record is at most `reach` records from one of those asked for.
        """
        passages = []
        stretches: dict[tuple[str, bool], list[int]] = {}
        with damage_is_a_fault():
            for rowid in rowids:
                kind, session, record = self._one("SELECT kind, session, record FROM sources WHERE rowid = ?", rowid)
                if kind == "record":
                    stretches.setdefault((session, rowid >= UNTRUSTED_FROM), []).append(record)
                else:
                    passages.append([_document(*self._one(f"{_DOCUMENTS} WHERE sources.rowid = ?", rowid))])
            for (session, untrusted), records in stretches.items():
                passages += [self._stretch(session, untrusted, *ends) for ends in _merged(sorted(records), reach)]
        return passages

    def _stretch(self, session: str, untrusted: bool, first: int, last: int) -> list[Document]:
        sql = (
            f"{_DOCUMENTS} WHERE kind = 'record' AND session = ? AND record BETWEEN ? AND ?"
            " AND (sources.rowid >= ?) = ? ORDER BY record, sources.rowid"
        )
        values = (session, first, last, UNTRUSTED_FROM, int(untrusted))
        return [_document(*columns) for columns in self._connection.execute(sql, values)]

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

    def _search(self, terms: list[str], order: str, limit: int, *, untrusted: bool) -> list[int]:
        """Row ids that FTS5 finds; those that it found until the deadline, if that passes."""
        side = ">=" if untrusted else "<"
        sql = f"SELECT rowid FROM hits WHERE hits MATCH ? AND rowid {side} ? ORDER BY {order} LIMIT ?"  # noqa: S608
        found: list[int] = []
        self._until_s = time.monotonic() + _DEADLINE_S
        try:
            for (rowid,) in self._connection.execute(sql, (match_expression(terms), UNTRUSTED_FROM, limit)):
                found.append(rowid)
        except apsw.InterruptError:
            pass
        finally:
            self._until_s = float("inf")
        return found

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


def _document(rowid: int, author: str | None, text: str, terms: str) -> Document:
    return Document(rowid, author, text, terms.split(" "))
