"""The books: what a call may spend is reserved, what it spent is priced, counted and kept as a row, once.

The driver of `spend.Ledger`, which knows the laws. What limits count errs on one side alone: of a call whose count is
not known to its end, all that was reserved for what is unknown.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import anyio
import msgspec

from egressd.destinations import Destinations
from egressd.meter.usage import Usage
from egressd.ports import Beginning, Ending
from egressd.prices import Price, Prices, cost, most
from egressd.schema import TUNNEL
from egressd.spend import MOST, NO_LIMITS, Amount, Ledger, Limits, State, Want
from egressd.store import Begun, Ended, Settled, UsageStore
from egressd.tunnel import TunnelBegun, TunnelSettled
from proto.faults import Fault
from proto.messages.broker import Spending
from proto.messages.egress import Billing, HarnessUsage
from proto.role.clock import Clock, stamp
from proto.role.log import logger
from proto.rules import Auth, Spend

_Said = TypeVar("_Said", Usage, HarnessUsage)
_BILLED: Final[frozenset[Auth]] = frozenset({"key", "gateway"})
_REFUSALS: Final[frozenset[Ended]] = frozenset({"refused", "failed"})
"""Ends whose status is egressd's own: the upstream has not answered."""
_WRITTEN_AFTER_S: Final = 0.002
"""Rows that come within this time are written together; a call that is to leave does not wait for it."""
_SYNCED_AFTER_S: Final = 0.05
"""What is settled within this time goes to the disk together."""
_MOST_ACCOUNTS: Final = 4096
"""Of which the sums are kept in memory when nothing is under way there."""


class Reserved(NamedTuple):
    """What brokerd is told of a call; `held` says that there is room for it."""

    spending: Spending
    held: bool


class _Open(NamedTuple):
    """A call under way: its reservation, in parts, and its price, if it has one."""

    begun: Beginning
    want: Want
    input_tokens: int
    output_tokens: int
    price: Price | None


class Books:
    """Reservations and rows of model calls."""

    def __init__(
        self, *, store: UsageStore, prices: Prices, destinations: Destinations, room_s: float, clock: Clock
    ) -> None:
        self.tunnels = TunnelRows(store, self._kept)
        self._store = store
        self._prices = prices
        self._destinations = destinations
        self._room_s = room_s
        self._clock = clock
        self._ledger = Ledger()
        self._open: dict[str, _Open] = {}
        self._woken: dict[str, anyio.Event] = {}
        self._unsynced = anyio.Event()
        self._writing: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Let the disk have what was settled, for many calls at once; until cancelled."""
        while True:
            await self._unsynced.wait()
            await anyio.sleep(_SYNCED_AFTER_S)
            self._unsynced = anyio.Event()
            self._write()
            await anyio.to_thread.run_sync(self._store.sync)

    async def begin(self, call: Beginning) -> Reserved:
        """Wait for room for what a call may spend, and keep its row. Settled once if this returns."""
        began = stamp(self._clock())
        opened = self._opened(call, began)
        try:
            held = await self._room(opened.want)
            # What does not fit will not leave, and counts as nothing.
            self._store.begin(_row(call, began, opened.want.amount if held else Amount()))
        except BaseException:
            self._wake(self._ledger.give_back(call.call))
            raise
        self._open[call.call] = opened
        self._write_soon()
        return Reserved(self._spending(opened), held)

    def need_written(self, call: str) -> None:
        """See that the row of a call is written, with all the others that are not.

        Raises:
            Fault: `internal`: the file does not take it.

        """
        if not self._store.has_written(call):
            self._write()
        if not self._store.has_written(call):
            raise Fault("internal")

    def settle(self, call: Ending) -> None:
        """Settle the row, and give back what was not spent; `run` waits for the disk."""
        opened = self._open.pop(call.call)
        partial = is_partial(call)
        price = (self._price(call.model) or opened.price) if _has_price(opened.begun) else None
        counted = _counted(call, opened, price, partial=partial)
        settled = Settled(
            call=call.call,
            status=call.status,
            ended=call.ended,
            partial=partial,
            finished=stamp(self._clock()),
            usage=_bounded(call.usage),
            model=call.model,
            nusd=_paid(call, price, partial=partial),
            counted=counted,
        )
        try:
            self._store.settle(settled)
            self._kept()
        finally:
            if self._ledger.holds(call.call):
                self._wake(self._ledger.settle(call.call, counted))

    def harness(self, usage: HarnessUsage) -> None:
        """Keep a harness's own count beside the egress's."""
        self._store.report(_bounded(usage), stamp(self._clock()))

    def _kept(self) -> None:
        self._write_soon()
        self._unsynced.set()

    def _write_soon(self) -> None:
        if self._writing is None:
            self._writing = asyncio.get_running_loop().call_later(_WRITTEN_AFTER_S, self._write)

    def _write(self) -> None:
        """Write what is not written yet; where that fails, the log says so, and no call leaves whose row it was."""
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        try:
            self._store.write()
        except OSError as error:
            logger().error("rows-not-written", reason=str(error))

    def _opened(self, call: Beginning, began: str) -> _Open:
        input_tokens = min(call.input_bytes, MOST // 2)
        output_tokens = min((call.output_tokens or call.max_output) * max(1, call.answers), MOST // 2)
        price = self._price(call.model) if _has_price(call) else None
        amount = Amount(
            input_tokens + output_tokens, None if price is None else most(price, input_tokens, output_tokens)
        )
        want = Want(call.call, call.session, call.destination, _day(began), amount)
        return _Open(call, want, input_tokens, output_tokens, price)

    async def _room(self, want: Want) -> bool:
        """Reserve, and wait for room where others may still make it; whether there was any."""
        self._know(want)
        self._wake(self._ledger.limit(want.destination, limits_of(self._destinations.spend(want.destination))))
        if self._ledger.reserve(want) == "waits":
            woken = self._woken[want.call] = anyio.Event()
            try:
                with anyio.move_on_after(self._room_s):
                    await woken.wait()
            finally:
                del self._woken[want.call]
        held = self._ledger.holds(want.call)
        if not held:
            self._wake(self._ledger.give_back(want.call))
        return held

    def _know(self, want: Want) -> None:
        """Read what was spent before of accounts that the ledger does not know."""
        self._ledger.trim(_MOST_ACCOUNTS)
        of_session, of_day = want.accounts
        if not self._ledger.knows(of_session):
            self._ledger.seed(of_session, self._store.spent_by(want.session, want.destination))
        if not self._ledger.knows(of_day):
            self._ledger.seed(of_day, self._store.spent_on(want.day, want.destination))

    def _wake(self, moved: dict[str, State]) -> None:
        for call in moved:
            if call in self._woken:
                self._woken[call].set()

    def _spending(self, opened: _Open) -> Spending:
        session, day = self._ledger.totals(opened.want)
        metered = _is_billed(opened.begun.auth)
        priced = metered and opened.price is not None
        return Spending(
            session_tokens=session.tokens,
            day_tokens=day.tokens,
            session_nusd=session.nusd if priced else None,
            day_nusd=day.nusd if priced else None,
            metered=metered,
        )

    def _price(self, model: str | None) -> Price | None:
        return self._prices.find(model) if model else None


class TunnelRows:
    """Rows of tunnels: bytes each way, and no tokens."""

    def __init__(self, store: UsageStore, kept: Callable[[], None]) -> None:
        self._store = store
        self._kept = kept

    def begin(self, tunnel: TunnelBegun) -> None:
        """Keep that a tunnel began, and write it.

        Raises:
            OSError: the file does not take it.

        """
        self._store.begin(
            Begun(
                call=tunnel.call,
                session=tunnel.session,
                destination=tunnel.destination,
                api=TUNNEL,
                auth="subscription",
                billing="plan",
                model=tunnel.authority,
                began=tunnel.began,
            )
        )
        self._store.write()

    def settle(self, tunnel: TunnelSettled) -> None:
        """Keep how it ended."""
        self._store.settle(
            Settled(
                call=tunnel.call,
                status=tunnel.status,
                ended=tunnel.ended,
                partial=False,
                finished=tunnel.finished,
                usage=Usage(),
                model=None,
                up_bytes=tunnel.up_bytes,
                down_bytes=tunnel.down_bytes,
            )
        )
        self._kept()


def billing_of(auth: Auth) -> Billing:
    """`metered` on a key or a gateway's key that egressd holds; else `plan`."""
    return "metered" if _is_billed(auth) else "plan"


def limits_of(spend: Spend | None) -> Limits:
    """The limits of a destination as the ledger takes them."""
    if spend is None:
        return NO_LIMITS
    return Limits(spend.session_tokens, spend.day_tokens, spend.session_nusd, spend.day_nusd)


def is_partial(call: Ending) -> bool:
    """Whether a provider may have counted more than it reported: something left, and not all that it cost is known.

    An answer of another status than 2xx is an error, which costs what it says it cost.
    """
    unanswered = call.status == 0 or call.ended in _REFUSALS
    if not call.sent or not (unanswered or 200 <= call.status < 300):
        return False
    return not call.complete or call.usage.input_tokens is None or call.usage.output_tokens is None


def _has_price(call: Beginning) -> bool:
    """Whether a call's model can price it: not on a plan, nor at a tier that costs more than the table says."""
    return _is_billed(call.auth) and not call.dearer


def _is_billed(auth: Auth) -> bool:
    return auth in _BILLED


def _day(time: str) -> str:
    """The day of a time (RFC 3339)."""
    return time[:10]


def _row(call: Beginning, began: str, counted: Amount) -> Begun:
    return Begun(
        call=call.call,
        session=call.session,
        destination=call.destination,
        api=call.api,
        auth=call.auth,
        billing=billing_of(call.auth),
        model=call.model,
        began=began,
        counted=counted,
    )


def _counted(call: Ending, opened: _Open, price: Price | None, *, partial: bool) -> Amount:
    """What limits count of a call: what was reported, and what was reserved in the place of what was not."""
    usage = call.usage
    if partial:
        known = usage.input_tokens if usage.input_tokens is not None else opened.input_tokens
        usage = msgspec.structs.replace(
            usage, input_tokens=known, output_tokens=max(usage.output_tokens or 0, opened.output_tokens)
        )
    tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    return Amount(min(tokens, MOST), None if price is None else min(cost(price, usage), MOST))


def _paid(call: Ending, price: Price | None, *, partial: bool) -> int | None:
    """The price of what was reported; None where there is no price, and something to pay."""
    if not partial and not (call.usage.input_tokens or call.usage.output_tokens):
        return 0
    return None if price is None else min(cost(price, call.usage), MOST)


def _bounded(said: _Said) -> _Said:
    """A count as it is kept: a number that nobody can have used would make the sums of all rows overflow."""
    beyond = {field: MOST for field in Usage.__struct_fields__ if (getattr(said, field) or 0) > MOST}
    return msgspec.structs.replace(said, **beyond) if beyond else said
