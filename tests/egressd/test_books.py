"""The books: reservations that wait, rows, prices, and what limits count of a call whose count is not known."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.from_thread
import anyio.lowlevel
import pytest

from egressd.books import Books
from egressd.destinations import Destinations
from egressd.meter.usage import Usage
from egressd.ports import Beginning, Ending
from egressd.prices import Prices
from egressd.spend import Amount
from egressd.store import UsageStore
from egressd.tunnel import TunnelBegun, TunnelSettled
from proto.faults import Fault
from proto.messages.egress import HarnessUsage

pytestmark = pytest.mark.anyio

S = "chat-1"
EVER = "0001-01-01T00:00:00Z"
DAY = "2026-11-30"
RULES = '[destinations.up]\nbase_url = "https://up.example"\n'
PRICES = "[models.m]\ninput = 2\noutput = 10\ncache_read = 0.5\ncache_write = 2.5\n"


class Room:
    """Books over a store in a folder; `limit` writes `[spend.up]`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.time = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC)
        self.limit()
        (home / "prices.toml").write_text(PRICES)
        self.open()

    def open(self, room_s: float = 20.0) -> None:
        self.store = UsageStore(self.home)
        self.destinations = Destinations(self.home)
        self.books = Books(
            store=self.store,
            prices=Prices(self.home),
            destinations=self.destinations,
            room_s=room_s,
            clock=lambda: self.time,
        )

    def again(self, room_s: float = 20.0) -> None:
        self.store.close()
        self.open(room_s)
        self.store.settle_left(EVER)

    def limit(self, **says: float) -> None:
        lines = "".join(f"{name} = {value}\n" for name, value in says.items())
        (self.home / "grants.toml").write_text(f"{RULES}[spend.up]\n{lines}")

    async def begin(self, call: str, **parts: Any) -> Any:
        self.destinations.all()
        usual = {
            "call": call, "session": S, "destination": "up", "api": "anthropic", "auth": "key", "model": "m",
            "input_bytes": 100, "output_tokens": 50, "answers": 1, "max_output": 1000,
        }  # fmt: skip
        return await self.books.begin(Beginning(**{**usual, **parts}))

    def end(self, call: str, tokens: tuple[int | None, int | None] = (None, None), **parts: Any) -> None:
        usage = Usage(input_tokens=tokens[0], output_tokens=tokens[1])
        usual = {"status": 200, "ended": "complete", "sent": True, "complete": True, "usage": usage, "model": None}
        self.books.settle(Ending(call=call, **{**usual, **parts}))

    @property
    def spent(self) -> Amount:
        """What limits count of the session, by the rows and by the ledger alike."""
        return self.store.spent_by(S, "up")

    def rows(self) -> list[tuple[int, int, int | None, int | None]]:
        return [(row.status, row.partial, row.input_tokens, row.output_tokens) for row in self.store.used(EVER, None)]


@pytest.fixture
def room(home: Path) -> Iterator[Room]:
    found = Room(home)
    yield found
    found.store.close()


async def test_what_is_reserved_is_the_bytes_of_the_body_and_the_most_of_the_answer(room: Room) -> None:
    first = await room.begin("a")
    assert first.held
    assert (first.spending.session_tokens, first.spending.day_tokens, first.spending.metered) == (150, 150, True)
    assert first.spending.session_nusd == 100 * 2500 + 50 * 10_000
    second = await room.begin("b", output_tokens=None, answers=3)
    assert second.spending.session_tokens == 150 + 100 + 3000
    other = await room.begin("c", session="chat-2", auth="subscription", model="unknown", output_tokens=0)
    assert (other.spending.session_tokens, other.spending.day_tokens) == (1100, 150 + 3100 + 1100)
    assert (other.spending.metered, other.spending.session_nusd, other.spending.day_nusd) == (False, None, None)
    unpriced = await room.begin("d", model="unknown", session="chat-3")
    assert (unpriced.spending.metered, unpriced.spending.session_nusd) == (True, None)
    dearer = await room.begin("e", dearer=True, session="chat-4")
    assert (dearer.spending.metered, dearer.spending.session_nusd) == (True, None)
    room.end("e", (100, 50), model="m")
    assert [row.unpriced_tokens for row in room.store.costs("", "chat-4")[0]] == [150]


ENDS: list[tuple[str, tuple[int | None, int | None], dict[str, Any], int, int]] = [
    ("complete", (30, 7), {}, 37, 0),
    ("more than was reserved", (300, 700), {}, 1000, 0),
    ("complete, and nothing reported", (None, None), {}, 150, 1),
    ("complete, and half reported", (30, None), {}, 80, 1),
    ("cut, the prompt known", (30, 3), {"complete": False, "ended": "upstream-cut"}, 80, 1),
    ("cut, more answered than reserved", (30, 60), {"complete": False, "ended": "client-left"}, 90, 1),
    ("cut, nothing known", (None, None), {"complete": False, "ended": "label-rose"}, 150, 1),
    ("sent, and no answer", (None, None), {"complete": False, "ended": "failed", "status": 502}, 150, 1),
    ("sent, and refused by us", (None, None), {"complete": False, "ended": "refused", "status": 403}, 150, 1),
    ("stopped before an answer", (None, None), {"complete": False, "ended": "stopped", "status": 0}, 150, 1),
    ("refused before it was sent", (None, None), {"sent": False, "ended": "refused", "status": 403}, 0, 0),
    ("not connected", (None, None), {"sent": False, "ended": "failed", "status": 502}, 0, 0),
    ("refused by the provider", (None, None), {"status": 429}, 0, 0),
    ("a broken refusal", (None, None), {"status": 500, "complete": False, "ended": "upstream-cut"}, 0, 0),
    ("an error that cost something", (30, 1), {"status": 500}, 31, 0),
]


@pytest.mark.parametrize(("name", "tokens", "parts", "counted", "partial"), ENDS, ids=[end[0] for end in ENDS])
async def test_what_limits_count_of_a_call(
    room: Room, name: str, tokens: tuple[int | None, int | None], parts: dict[str, Any], counted: int, partial: int
) -> None:
    await room.begin("a")
    room.end("a", tokens, **parts)
    assert room.spent.tokens == counted
    assert room.rows() == [(parts.get("status", 200), partial, *tokens)]
    following = await room.begin("b", input_bytes=0, output_tokens=1)
    assert following.spending.session_tokens == counted + 1
    room.end("b", (0, 0))
    room.again()
    again = await room.begin("c", input_bytes=0, output_tokens=1)
    assert again.spending.session_tokens == counted + 1


async def test_a_price_is_of_the_time_and_of_the_model_that_answered(room: Room) -> None:
    await room.begin("a", model="m-large")
    room.end("a", (30, 7), model="m-large-2026")
    assert room.store.costs(EVER, None)[1] == 30 * 2000 + 7 * 10_000
    (room.home / "prices.toml").write_text("[models.m-large]\ninput = 100\noutput = 100\n")
    assert room.store.costs(EVER, None)[1] == 130_000
    await room.begin("b", model="alias")
    room.end("b", (1, 1), model="m-large-2026")
    assert room.store.costs(EVER, None)[1] == 330_000
    await room.begin("c", model="m-large")
    room.end("c", (1, 1), model="what-is-this")
    assert room.store.costs(EVER, None)[1] == 530_000
    await room.begin("d", auth="subscription")
    room.end("d", (1, 1), model="m-large")
    await room.begin("e", model="what-is-this")
    room.end("e", (2, 3))
    await room.begin("f", model="never-there")
    room.end("f", status=404)
    (row,), total = room.store.costs(EVER, None)
    assert (total, row.plan_tokens, row.unpriced_tokens) == (530_000, 2, 5)
    assert row.unpriced_models == ["what-is-this"]


async def test_one_that_does_not_fit_waits_and_comes_in_when_others_spent_less(room: Room) -> None:
    room.limit(session_tokens=400)
    assert (await room.begin("a")).held
    assert (await room.begin("b")).held
    came: list[str] = []

    async def wait(call: str) -> None:
        reserved = await room.begin(call)
        came.append(call if reserved.held else f"not {call}")
        assert (reserved.spending.session_tokens <= 400) is reserved.held

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for call in ("c", "d", "e"):
                await tasks_start(tasks, wait, call)
            room.end("a", (5, 5))
            await _until(lambda: came == ["c"])
            room.end("b", (5, 5))
            await _until(lambda: len(came) == 2)
            room.end("c", (150, 150))
            room.end("d", (0, 0))
    assert came == ["c", "d", "not e"]
    assert room.spent.tokens == 320


async def tasks_start(tasks: anyio.abc.TaskGroup, wait: Callable[[str], Any], call: str) -> None:
    """Start a call and let it come to where it waits."""
    tasks.start_soon(wait, call)
    for _ in range(3):
        await anyio.lowlevel.checkpoint()


async def _until(true: Callable[[], bool]) -> None:
    while not true():
        await anyio.lowlevel.checkpoint()


async def test_one_that_can_never_fit_does_not_wait_and_counts_as_nothing(room: Room) -> None:
    room.limit(session_tokens=200)
    assert (await room.begin("a")).held
    refused = await room.begin("b", input_bytes=1000)
    assert (refused.held, refused.spending.session_tokens) == (False, 150 + 1050)
    assert room.spent.tokens == 150
    room.end("b", sent=False, status=403, ended="refused")
    room.end("a", (10, 10))
    assert room.spent.tokens == 20


async def test_one_that_waits_too_long_or_is_cancelled_leaves_nothing_behind(room: Room) -> None:
    room.limit(day_tokens=200)
    room.again(room_s=0.01)
    assert (await room.begin("a")).held
    late = await room.begin("b")
    assert (late.held, late.spending.day_tokens) == (False, 300)
    room.end("b", sent=False, status=403, ended="refused")
    room.again(room_s=20)
    assert (await room.begin("c", input_bytes=1, output_tokens=1)).held
    with anyio.move_on_after(0.02):
        await room.begin("d", input_bytes=40, output_tokens=9)
    room.end("c", (0, 0))
    assert (await room.begin("e", input_bytes=40, output_tokens=8)).held
    assert len(room.store.used(EVER, None)) == 3


async def test_money_is_limited_for_what_is_billed_alone(room: Room) -> None:
    room.limit(session_usd=0.001)
    assert (await room.begin("a", input_bytes=0, output_tokens=100)).held
    assert not (await room.begin("b", input_bytes=0, output_tokens=101)).held
    assert (await room.begin("c", auth="subscription", output_tokens=100_000)).held
    assert (await room.begin("d", model="unknown", output_tokens=100_000)).held
    room.end("a", (0, 10))
    assert (await room.begin("e", input_bytes=0, output_tokens=90)).held
    room.end("e", (0, 200))
    assert not (await room.begin("f", input_bytes=0, output_tokens=1)).held


async def test_a_day_is_utcs_and_a_call_belongs_to_the_day_on_which_it_began(room: Room) -> None:
    room.limit(day_tokens=200)
    assert (await room.begin("a")).held
    room.time = datetime(2026, 12, 1, tzinfo=UTC)
    tomorrow = await room.begin("b")
    assert (tomorrow.held, tomorrow.spending.day_tokens, tomorrow.spending.session_tokens) == (True, 150, 300)
    room.end("a", (90, 90))
    room.end("b", (10, 10))
    assert (room.store.spent_on(DAY, "up").tokens, room.store.spent_on("2026-12-01", "up").tokens) == (180, 20)
    assert (await room.begin("c", input_bytes=100, output_tokens=80)).held


async def test_a_crash_keeps_what_was_reserved(room: Room) -> None:
    room.limit(session_tokens=200)
    assert (await room.begin("a")).held
    room.again()
    assert not (await room.begin("b")).held
    assert (await room.begin("c", input_bytes=25, output_tokens=25)).held


async def test_a_tunnel_and_a_harness_have_rows_and_count_for_nothing(room: Room) -> None:
    room.limit(session_tokens=200)
    tunnel = TunnelBegun(call="tunnel-1", session=S, destination="up", authority="a.example:443", began=EVER)
    room.books.tunnels.begin(tunnel)
    room.books.tunnels.settle(
        TunnelSettled(call="tunnel-1", status=200, ended="complete", up_bytes=1, down_bytes=2, finished=EVER)
    )
    told: dict[str, Any] = dict.fromkeys(Usage.__struct_fields__, 1000)
    room.books.harness(HarnessUsage(session=S, call="h", destination="up", model="m", **told))
    assert {(row.model, row.source, row.billing) for row in room.store.used(EVER, None)} == {
        ("a.example:443", "egress", "plan"),
        ("m", "harness", "plan"),
    }
    assert (await room.begin("a")).spending.session_tokens == 150


async def test_accounts_that_are_forgotten_are_known_again(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egressd.books._MOST_ACCOUNTS", 0)
    room.limit(session_tokens=1000)
    await room.begin("a")
    await room.begin("b", session="chat-2")
    room.end("a", (300, 400))
    room.end("b", (1, 1))
    again = await room.begin("c")
    assert (again.held, again.spending.session_tokens, again.spending.day_tokens) == (True, 850, 852)
    assert not (await room.begin("d", output_tokens=300)).held


async def test_the_disk_is_waited_for_once_for_many(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    began, gate = anyio.Event(), threading.Event()
    synced: list[int] = []

    def sync() -> None:
        synced.append(1)
        anyio.from_thread.run_sync(began.set)
        assert gate.wait(20)

    monkeypatch.setattr(room.store, "sync", sync)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(room.books.run)
        for number in range(5):
            await room.begin(f"c{number}")
        room.end("c0", (1, 1))
        with anyio.fail_after(20):
            await began.wait()
        for number in range(1, 5):
            room.end(f"c{number}", (1, 1))
        gate.set()
        with anyio.fail_after(20):
            while len(synced) < 2:  # noqa: ASYNC110  (of a thread)
                await anyio.sleep(0.001)
        await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert len(synced) == 2


async def test_a_call_leaves_when_its_row_is_written_and_not_before(room: Room) -> None:
    for call in ("a", "b"):
        await room.begin(call)
    assert not room.store.has_written("a")
    room.books.need_written("a")
    assert room.store.has_written("b")
    room.books.need_written("b")
    room.store._connection.set_commit_hook(lambda: True)
    for call in ("c", "d"):
        await room.begin(call)
    for call in ("c", "d"):
        with pytest.raises(Fault) as caught:
            room.books.need_written(call)
        assert caught.value.code == "internal"
        room.end(call, sent=False, status=500, ended="failed")
    room.store._connection.set_commit_hook(None)
    room.end("a", (1, 1))
    with anyio.fail_after(20):
        while room.books._writing:  # noqa: ASYNC110  (of a clock)
            await anyio.sleep(0.001)
    # What the file did not take counts for nothing: it has not left.
    assert room.rows() == [(200, 0, 1, 1)]
    assert room.spent == Amount(2 + 150, 1 * 2000 + 1 * 10_000 + 100 * 2500 + 50 * 10_000)


async def test_a_count_that_nobody_can_have_used_breaks_no_sum(room: Room) -> None:
    # A provider may say what it likes, and so may a harness in its transcript: the rows stay readable.
    for number in range(3):
        await room.begin(f"a{number}", session="chat-2")
        room.end(f"a{number}", (1 << 62, (1 << 53) - 1), model="m")
        told: dict[str, Any] = dict.fromkeys(Usage.__struct_fields__, 1 << 53)
        room.books.harness(HarnessUsage(session="chat-2", call=str(number), destination="up", model="m", **told))
    assert [row.calls for row in room.store.used(EVER, None)] == [3, 3]
    rows, total_nusd = room.store.costs(EVER, None)
    assert rows[0].nusd == total_nusd > 0
    assert room.store.spent_by("chat-2", "up").tokens > 0
