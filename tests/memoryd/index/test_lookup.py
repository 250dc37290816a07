from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from memoryd.index import lookup, store
from memoryd.index.hits import Frequencies, Row
from memoryd.index.lookup import Lookup
from memoryd.index.store import UNTRUSTED_FROM, Store, damage_is_a_fault
from proto.faults import Fault
from proto.labels import PRIVATE, DataClass, Label

TAINTED = Label(class_=DataClass.PRIVATE, untrusted=True)


class Shelf:
    """An index's file with both its sides open. One record a minute."""

    begun = datetime(2026, 9, 20, tzinfo=UTC)

    def __init__(self, path: str) -> None:
        self.store = Store(path, DataClass.PRIVATE)
        self.lookup = Lookup(path)
        self.next_record = 0

    def add(self, *texts: str, untrusted: bool = False, session: str = "chat-1") -> list[int]:
        label = TAINTED if untrusted else PRIVATE
        rows = [
            Row(
                kind="record",
                session=session,
                record=self.next_record + at,
                time=f"{self.begun + (self.next_record + at) * timedelta(minutes=1):%Y-%m-%dT%H:%MZ}",
                role="user",
                label=label,
                text=text,
            )
            for at, text in enumerate(texts)
        ]
        self.next_record += len(rows)
        with self.store.transaction():
            return self.store.add(rows)

    def candidates(self, *terms: str, limit: int = 5, untrusted: bool = False) -> list[int]:
        holding = self.lookup.frequencies(terms).holding
        return self.lookup.candidates(holding, limit, untrusted=untrusted)


@pytest.fixture
def shelf(home: Path) -> Iterator[Shelf]:
    made = Shelf(str(home / "index" / "memory.sqlite3"))
    yield made
    made.lookup.close()
    made.store.close()


def test_how_common_terms_are(shelf: Shelf) -> None:
    added = shelf.add("alpha beta", "alpha alpha")
    assert shelf.lookup.frequencies(["alpha", "beta", "gamma"]) == Frequencies(2, 4, {"alpha": 2, "beta": 1})
    with shelf.store.transaction():
        shelf.store.remove(added[:1])
    assert shelf.lookup.frequencies(["alpha", "beta"]) == Frequencies(1, 2, {"alpha": 1})


def test_a_transaction_that_fails_counts_nothing(shelf: Shelf) -> None:
    with pytest.raises(ValueError, match="no"), shelf.store.transaction():
        shelf.add("alpha")
        raise ValueError("no")
    shelf.add("beta")
    assert shelf.lookup.frequencies(["alpha", "beta"]) == Frequencies(1, 1, {"beta": 1})


def test_no_flood_of_untrusted_rows_hides_a_trusted_one(shelf: Shelf) -> None:
    shelf.add(*["launch"] * 200, untrusted=True)
    [trusted] = shelf.add("we spoke at length about many things, and in the end about the launch")
    assert shelf.candidates("launch") == [trusted]
    assert len(shelf.candidates("launch", untrusted=True)) == 5
    assert all(rowid >= UNTRUSTED_FROM for rowid in shelf.candidates("launch", untrusted=True))


def test_rare_terms_are_weighed_and_places_left_go_to_the_newest_rows_of_common_ones(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_BUDGET_ROWS", 3)
    rows = shelf.add("common", "common", "common often", "rare", "common often", "often", "often")
    assert shelf.candidates("rare", "common") == [rows[3], rows[4], rows[2], rows[1], rows[0]]
    assert shelf.candidates("common", "often", limit=3) == [rows[4], rows[2], rows[6]]
    assert shelf.candidates("common", "often", untrusted=True) == []


def test_what_is_newest_is_said_by_its_time_and_not_by_when_it_came(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_BUDGET_ROWS", 3)
    monkeypatch.setattr(lookup, "_NEWEST_ROWS", 2)
    shelf.next_record = 100
    new = shelf.add("common", "common")
    shelf.next_record = 0
    old = shelf.add("common", "common")
    shelf.next_record = 100
    same = shelf.add("common", "common", session="chat-0")
    assert set(shelf.candidates("common", limit=2)) == {same[1], new[1]}
    assert shelf.candidates("common", limit=1) == [same[1]]
    assert not set(old) & set(shelf.candidates("common", limit=4))
    monkeypatch.setattr(lookup, "_BUDGET_ROWS", 30)
    assert set(shelf.candidates("common", limit=3)) == {same[1], new[1], same[0]}


def test_a_minute_with_more_rows_than_ids_takes_the_next_ones(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MINUTE_IDS", 4)
    rows = []
    for _ in range(3):
        shelf.next_record = 0
        rows += shelf.add(*["launch"] * 3)
    assert len(set(rows)) == 9
    assert len(shelf.candidates("launch", limit=20)) == 9


def test_what_was_found_until_the_deadline_stands(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.add(*["launch"] * 3000)
    monkeypatch.setattr(lookup, "_DEADLINE_S", -1.0)
    assert len(shelf.candidates("launch", limit=5)) <= 5
    monkeypatch.setattr(lookup, "_DEADLINE_S", 60.0)
    assert len(shelf.candidates("launch", limit=5)) == 5


def test_passages_are_stretches_of_one_session_and_one_trust(shelf: Shelf) -> None:
    first = shelf.add(*[f"turn {number}" for number in range(10)])
    tainted = shelf.add("turn 10", "turn 11", untrusted=True)
    shelf.add("turn elsewhere", session="chat-2")

    def shown(rowids: list[int], reach: int) -> list[list[int]]:
        return [[document.rowid for document in passage] for passage in shelf.lookup.passages(rowids, reach)]

    assert shown([first[5]], 1) == [first[4:7]]
    assert shown([first[5], first[3]], 1) == [first[2:7]]
    assert shown([first[8], first[0]], 1) == [first[:2], first[7:10]]
    assert shown([first[9], tainted[0]], 3) == [first[6:10], tainted]


def test_a_row_without_a_source_is_damage(shelf: Shelf) -> None:
    with pytest.raises(Fault) as caught:
        shelf.lookup.row(7)
    assert caught.value.code == "memory-index-damaged"
    with pytest.raises(Fault):
        shelf.lookup.passages([7], 1)


def test_a_full_disk_is_no_damage() -> None:
    with pytest.raises(OSError, match="no space left"), damage_is_a_fault():
        raise apsw.FullError
    with pytest.raises(Fault), damage_is_a_fault():
        try:
            raise apsw.IOError
        except apsw.IOError:
            raise apsw.SQLError("cannot rollback - no transaction is active")  # noqa: B904
    with pytest.raises(apsw.SQLError), damage_is_a_fault():
        raise apsw.SQLError("no such table")
