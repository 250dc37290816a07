"""The rows of usage: what is counted for limits, what is shown, a file of the first format, what a crash left."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.meter.usage import Usage
from egressd.schema import TUNNEL
from egressd.spend import Amount
from egressd.store import FILE, Begun, Settled, UsageStore
from proto.faults import Fault
from proto.messages.egress import HarnessUsage

S = "chat-1"
EVER = "0001-01-01T00:00:00Z"
AT = "2026-11-30T10:00:00Z"

FORMAT_1 = """
CREATE TABLE calls (
  call TEXT PRIMARY KEY, session TEXT NOT NULL, destination TEXT NOT NULL, model TEXT NOT NULL, status INTEGER,
  ended TEXT, partial INTEGER NOT NULL, began TEXT NOT NULL, finished TEXT, input_tokens INTEGER,
  output_tokens INTEGER, cache_read_tokens INTEGER, reasoning_tokens INTEGER
) STRICT;
CREATE INDEX calls_by_time ON calls (began);
CREATE INDEX calls_by_session ON calls (session, began);
PRAGMA user_version = 1;
INSERT INTO calls VALUES ('model-1', 'chat-1', 'up', 'm', 200, 'complete', 0, '2026-11-29T23:59:59Z', 'x', 11, 7, 5, 2);
INSERT INTO calls VALUES ('model-2', 'chat-1', 'up', 'm', NULL, NULL, 1, '2026-11-30T00:00:00Z', NULL, NULL, NULL, NULL, NULL);
"""


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[UsageStore]:
    store = UsageStore(folder)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[UsageStore]:
    with opened(tmp_path) as found:
        yield found


def begin(store: UsageStore, call: str, **parts: Any) -> None:
    told = {"api": "openai-chat", "auth": "key", "billing": "metered", "began": AT}
    store.begin(Begun(**{"call": call, "session": S, "destination": "up", "model": "m", **told, **parts}))


def settle(store: UsageStore, call: str, **parts: Any) -> None:
    told = {"status": 200, "ended": "complete", "partial": False, "finished": AT, "usage": Usage(), "model": None}
    store.settle(Settled(call=call, **{**told, **parts}))


def report(**parts: Any) -> HarnessUsage:
    told = dict.fromkeys(Usage.__struct_fields__)
    return HarnessUsage(**{"session": S, "call": "u1", "destination": "up", "model": "m", **told, **parts})


def test_what_is_reserved_counts_until_the_call_is_settled(store: UsageStore) -> None:
    begin(store, "a", counted=Amount(100, 9))
    begin(store, "b", destination="other", counted=Amount(1))
    assert store.spent_by(S, "up") == store.spent_on("2026-11-30", "up") == Amount(100, 9)
    assert store.used(EVER, None) == []
    settle(store, "a", usage=Usage(input_tokens=5, output_tokens=6), nusd=3, counted=Amount(11, 3))
    assert store.spent_by(S, "up") == store.spent_on("2026-11-30", "up") == Amount(11, 3)
    assert store.spent_on("2026-11-29", "up") == store.spent_by("chat-2", "up") == Amount(0, 0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1000)), max_size=12))
def test_a_day_is_utcs_from_its_first_second_to_its_last(calls: list[tuple[int, int]]) -> None:
    import tempfile

    times = ("2026-11-29T23:59:59Z", "2026-11-30T00:00:00Z", "2026-11-30T23:59:59Z", "2026-12-01T00:00:00Z")
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as store:
        for number, (time, tokens) in enumerate(calls):
            begin(store, f"c{number}", began=times[time], counted=Amount(tokens))
        assert store.spent_on("2026-11-30", "up").tokens == sum(tokens for time, tokens in calls if time in (1, 2))
        assert store.spent_by(S, "up").tokens == sum(tokens for _, tokens in calls)


def test_a_crash_leaves_what_was_reserved_counted_and_partial(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        begin(store, "a", counted=Amount(100, 9))
        begin(store, "b", counted=Amount(50))
    with opened(tmp_path) as store:
        assert store.settle_left(AT) == 2
        assert store.settle_left(AT) == 0
        assert store.spent_by(S, "up") == Amount(150, 9)
        (row,) = store.used(EVER, None)
        assert (row.status, row.calls, row.partial, row.input_tokens) == (0, 2, 2, None)
        (cost,), total = store.costs(EVER, None)
        assert (cost.nusd, cost.partial, cost.unpriced_models, total) == (0, 2, ["m"], 0)


def test_a_file_of_the_first_format_keeps_its_rows(tmp_path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(tmp_path / FILE))) as old:
        old.execute(FORMAT_1)
    for _ in range(2):
        with opened(tmp_path) as store:
            store.settle_left(AT)
            rows = store.used(EVER, None)
            assert [(row.status, row.input_tokens, row.reasoning_tokens, row.partial) for row in rows] == [
                (200, 11, 2, 0),
                (0, None, None, 1),
            ]
            assert {(row.source, row.billing) for row in rows} == {("egress", "metered")}
            assert store.spent_on("2026-11-29", "up") == Amount(18, 0)


def test_a_file_of_a_later_format_stops_the_start(tmp_path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(tmp_path / FILE))) as later:
        later.execute("PRAGMA user_version = 3")
    with pytest.raises(Fault) as caught:
        UsageStore(tmp_path)
    assert caught.value.code == "egressd-start-failed"
    assert "format 3" in caught.value.message


def test_a_harness_that_reports_again_replaces_its_report_and_counts_for_no_limit(store: UsageStore) -> None:
    begin(store, "u1", counted=Amount(7))
    settle(store, "u1", usage=Usage(input_tokens=3, output_tokens=4), counted=Amount(7))
    for tokens in (100, 250):
        store.report(report(input_tokens=tokens, output_tokens=1), AT)
    store.report(report(session="chat-2", input_tokens=1), AT)
    rows = {(row.source, row.billing, row.input_tokens, row.calls) for row in store.used(EVER, S)}
    assert rows == {("egress", "metered", 3, 1), ("harness", "plan", 250, 1)}
    assert store.spent_by(S, "up") == Amount(7, 0)
    assert store.calls_of(S) == 1
    (cost, other), _ = store.costs(EVER, None)
    assert {(cost.calls, cost.harness_tokens), (other.calls, other.harness_tokens)} == {(1, 251), (0, 1)}


def test_a_tunnel_has_bytes_and_no_tokens(store: UsageStore) -> None:
    begin(store, "t", api=TUNNEL, billing="plan", model="api.example.com:443")
    settle(store, "t", up_bytes=10, down_bytes=20)
    (row,) = store.used(EVER, None)
    assert (row.model, row.up_bytes, row.down_bytes, row.input_tokens) == ("api.example.com:443", 10, 20, None)
    assert (store.calls_of(S), store.models()) == (0, [])


def test_cost_keeps_money_unpriced_models_and_plan_apart(store: UsageStore) -> None:
    used = Usage(input_tokens=10, output_tokens=5)
    begin(store, "priced")
    settle(store, "priced", usage=used, nusd=1000)
    for number in range(12):
        begin(store, f"unpriced-{number}", model=f"new-{number:02}")
        settle(store, f"unpriced-{number}", usage=used)
    begin(store, "plan", billing="plan", auth="subscription")
    settle(store, "plan", usage=used, nusd=None)
    begin(store, "refused", model="never-called")
    settle(store, "refused", status=403, ended="refused", nusd=0)
    begin(store, "dear", session="chat-2")
    settle(store, "dear", usage=used, nusd=5000, partial=True)
    (dear, mixed), total = store.costs(EVER, None)
    assert (dear.session, dear.nusd, dear.metered_tokens, dear.partial) == ("chat-2", 5000, 15, 1)
    assert (mixed.nusd, mixed.metered_tokens, mixed.unpriced_tokens, mixed.plan_tokens) == (1000, 15, 180, 15)
    assert mixed.unpriced_models == [f"new-{number:02}" for number in range(10)]
    assert total == 6000
    assert store.costs("2999-01-01T00:00:00Z", None) == ([], 0)
    assert store.costs(EVER, "chat-2") == ([dear], 5000)
    assert ("up", "never-called") not in store.models()


def test_rows_of_days_are_apart(store: UsageStore) -> None:
    for day in ("2026-11-29", "2026-11-30"):
        begin(store, day, began=f"{day}T12:00:00Z")
        settle(store, day, usage=Usage(input_tokens=1, cache_write_1h_tokens=1))
    assert [row.day for row in store.used(EVER, None, by_day=True)] == ["2026-11-30", "2026-11-29"]
    (row,) = store.used(EVER, None)
    assert (row.day, row.input_tokens, row.cache_write_1h_tokens, row.cache_write_5m_tokens) == (None, 2, 2, None)


def written(folder: Path) -> list[tuple[str, int | None]]:
    """The calls in the file and their statuses, as another process sees them."""
    with contextlib.closing(apsw.Connection(str(folder / FILE))) as other:
        return list(other.execute("SELECT call, status FROM calls ORDER BY call"))


def test_rows_are_written_together_and_seen_here_before(tmp_path: Path, store: UsageStore) -> None:
    begin(store, "a", counted=Amount(5))
    begin(store, "b", counted=Amount(6))
    assert (store.has_written("a"), store.has_written("b"), store.calls_of(S)) == (False, False, 2)
    assert store.spent_by(S, "up") == Amount(11, 0)
    assert written(tmp_path) == []
    store.write()
    assert (store.has_written("a"), store.has_written("b")) == (True, True)
    settle(store, "a")
    assert written(tmp_path) == [("a", None), ("b", None)]
    store.write()
    store.write()
    assert written(tmp_path) == [("a", 200), ("b", None)]


def test_a_row_that_cannot_be_kept_costs_the_others_nothing(tmp_path: Path, store: UsageStore) -> None:
    begin(store, "a")
    with pytest.raises(apsw.ConstraintError):
        begin(store, "a")
    begin(store, "c")
    store.write()
    assert written(tmp_path) == [("a", None), ("c", None)]


def test_rows_that_the_file_does_not_take_are_told_and_later_ones_are_written(
    tmp_path: Path, store: UsageStore
) -> None:
    begin(store, "before")
    store.write()
    store._connection.set_commit_hook(lambda: True)
    begin(store, "lost")
    settle(store, "before")
    with pytest.raises(OSError, match="the rows cannot be written"):
        store.write()
    store.write()
    assert (store.has_written("before"), store.has_written("lost")) == (True, False)
    store._connection.set_commit_hook(None)
    begin(store, "after")
    store.write()
    assert (store.has_written("lost"), store.has_written("after")) == (False, True)
    assert written(tmp_path) == [("after", None), ("before", None)]
    settle(store, "lost")
    store.write()
    assert store.has_written("lost")
    assert written(tmp_path) == [("after", None), ("before", None)]


def test_a_full_file_loses_no_row_that_was_written(tmp_path: Path, store: UsageStore) -> None:
    begin(store, "a")
    store.write()
    store._connection.pragma("max_page_count", store._connection.pragma("page_count"))
    calls: list[str] = []
    with pytest.raises((apsw.FullError, OSError)):
        for number in range(1_000):
            calls.append(f"c{number:03}")
            begin(store, calls[-1], model="m" * 100)
    with contextlib.suppress(OSError):
        store.write()
    store._connection.pragma("max_page_count", 1_000_000)
    begin(store, "z")
    store.write()
    known = {call for call, _ in written(tmp_path)}
    assert {"a", "z"} <= known
    assert {call for call in calls[:-1] if store.has_written(call)} == known - {"a", "z"}
