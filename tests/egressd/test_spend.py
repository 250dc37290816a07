"""The ledger of spend under any order of calls: its laws, against a plain model of it."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from egressd.spend import NO_LIMITS, Account, Amount, Ledger, Limits, State, Want

SESSIONS = ("chat-1", "chat-2")
DESTINATIONS = ("a", "a", "a", "b")
DAYS = ("2026-11-30", "2026-12-01")
MOSTLY = (DAYS[0], DAYS[0], DAYS[0], DAYS[1])

amounts = st.builds(Amount, st.integers(0, 60), st.none() | st.integers(0, 60))
some = st.none() | st.integers(40, 150)
tight = st.builds(Limits, some, st.integers(40, 150), st.none(), st.none())
limits = st.one_of(tight, tight, st.builds(Limits, some, some, some, some))


class Ledgers(RuleBasedStateMachine):
    """Calls that begin, wait, spend what they reserved or more or less, and go, while the owner changes the limits."""

    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.count = 0
        self.limits = dict.fromkeys(DESTINATIONS, NO_LIMITS)
        self.wants: dict[str, Want] = {}
        self.held: set[str] = set()
        self.waiting: list[str] = []
        self.spent: dict[Account, Amount] = {}

    @initialize(says=tight)
    def begin_with_limits(self, says: Limits) -> None:
        self.limit("a", says)

    @rule(destination=st.sampled_from(DESTINATIONS), says=limits)
    def limit(self, destination: str, says: Limits) -> None:
        changed = self.limits[destination] != says
        self.limits[destination] = says
        moved = self.ledger.limit(destination, says)
        assert moved == (self._let_in(destination) if changed else {})

    @rule(
        target=calls,
        session=st.sampled_from(SESSIONS),
        destination=st.sampled_from(DESTINATIONS),
        day=st.sampled_from(MOSTLY),
        amount=amounts,
    )
    def reserve(self, session: str, destination: str, day: str, amount: Amount) -> Any:
        self.count += 1
        want = Want(f"c{self.count}", session, destination, day, amount)
        state = self.ledger.reserve(want)
        if not self._fits(want, [], []):
            assert state == "never"
            return multiple()
        self.wants[want.call] = want
        firsts = self._firsts(destination)
        alone = session not in {self.wants[first].session for first in firsts}
        if alone and self._fits(want, [*self.held], firsts):
            assert state == "held"
            self.held.add(want.call)
        else:
            assert state == "waits"
            self.waiting.append(want.call)
        return want.call

    @rule(call=consumes(calls), spent=amounts, exceeds=st.booleans())
    def end(self, call: str, spent: Amount, exceeds: bool) -> None:
        if call not in self.held:
            return
        want = self.wants.pop(call)
        self.held.remove(call)
        if not exceeds:
            spent = Amount(min(spent.tokens, want.amount.tokens), min(spent.nusd or 0, want.amount.nusd or 0))
        moved = self.ledger.settle(call, spent)
        for account in want.accounts:
            before = self.spent.get(account, Amount(0, 0))
            self.spent[account] = Amount(before.tokens + spent.tokens, (before.nusd or 0) + (spent.nusd or 0))
        assert moved == self._let_in(want.destination)

    @rule(call=consumes(calls))
    def give_back(self, call: str) -> None:
        self.give_back_of(call)

    def give_back_of(self, call: str) -> None:
        if call not in self.wants:
            assert self.ledger.give_back(call) == {}
            return
        want = self.wants.pop(call)
        self.held.discard(call)
        if call in self.waiting:
            self.waiting.remove(call)
        assert self.ledger.give_back(call) == self._let_in(want.destination)
        assert self.ledger.give_back(call) == {}

    @rule()
    def all_go(self) -> None:
        """Everybody gives back, those who wait first."""
        for call in [*self.waiting, *sorted(self.held)]:
            self.give_back_of(call)

    @rule()
    def trim(self) -> None:
        self.ledger.trim(0)
        for account, spent in self.spent.items():
            if not self.ledger.knows(account):
                self.ledger.seed(account, spent)

    @invariant()
    def what_is_taken_is_what_is_spent_and_held(self) -> None:
        for call, want in self.wants.items():
            assert self.ledger.holds(call) is (call in self.held)
            found = self.ledger.totals(want)
            for account, total in zip(want.accounts, found, strict=True):
                assert total == self._sum(account, {*self.held, call})
                assert min(total.tokens, total.nusd or 0) >= 0

    @invariant()
    def nothing_is_left_when_nobody_is_there(self) -> None:
        if not self.wants:
            assert not self.ledger._held
            assert not any(self.ledger._queues.values())
            for account, book in self.ledger._books.items():
                assert book.calls == 0
                spent = self.spent.get(account, Amount(0, 0))
                assert {(one.tokens, one.nusd) for one in (book.spent, book.taken)} == {tuple(spent)}

    def _sum(self, account: Account, calls: Iterable[str]) -> Amount:
        tokens, nusd = self.spent.get(account, Amount(0, 0))
        for call in calls:
            want = self.wants[call]
            if account in want.accounts:
                tokens += want.amount.tokens
                nusd = (nusd or 0) + (want.amount.nusd or 0)
        return Amount(tokens, nusd)

    def _fits(self, want: Want, beside: list[str], ahead: list[str]) -> bool:
        """Whether a call fits beside those of its accounts, and of the day's with those ahead of it as well."""
        says = self.limits[want.destination]
        session, day = want.accounts
        others = [call for call in beside if call != want.call]
        return all(
            (tokens is None or taken.tokens + want.amount.tokens <= tokens)
            and (nusd is None or want.amount.nusd is None or (taken.nusd or 0) + want.amount.nusd <= nusd)
            for taken, tokens, nusd in (
                (self._sum(session, others), says.session_tokens, says.session_nusd),
                (self._sum(day, [*others, *ahead]), says.day_tokens, says.day_nusd),
            )
        )

    def _firsts(self, destination: str) -> list[str]:
        """The first that waits of each session, in the order of their coming."""
        found: dict[str, str] = {}
        for call in self.waiting:
            if self.wants[call].destination == destination:
                found.setdefault(self.wants[call].session, call)
        return list(found.values())

    def _let_in(self, destination: str) -> dict[str, State]:
        """What the laws say of those who wait, looked at one after the other from the first."""
        moved: dict[str, State] = {}
        ahead: list[str] = []
        while left := [call for call in self._firsts(destination) if call not in ahead]:
            call = min(left, key=self.waiting.index)
            want = self.wants[call]
            if not self._fits(want, [], []):
                moved[call] = "never"
                self.waiting.remove(call)
                del self.wants[call]
            elif self._fits(want, [*self.held], ahead):
                moved[call] = "held"
                self.waiting.remove(call)
                self.held.add(call)
            else:
                ahead.append(call)
        return moved


TestLedger = Ledgers.TestCase
TestLedger.settings = settings(max_examples=40, stateful_step_count=30)


def _ledger(**says: int) -> Ledger:
    ledger = Ledger()
    ledger.limit("a", Limits(**says))
    return ledger


def _want(call: str, tokens: int, session: str = "chat-1", day: str = DAYS[0]) -> Want:
    return Want(call, session, "a", day, Amount(tokens))


@pytest.mark.parametrize("session", ["chat-1", "chat-2"])
def test_a_large_call_is_not_starved_by_small_ones(session: str) -> None:
    ledger = _ledger(day_tokens=100)
    assert ledger.reserve(_want("first", 60)) == "held"
    assert ledger.reserve(_want("large", 90)) == "waits"
    for number in range(20):
        assert ledger.reserve(_want(f"small-{number}", 10, session)) == "waits"
    assert ledger.settle("first", Amount(5)) == {"large": "held"}
    assert ledger.settle("large", Amount(50))["small-0"] == "held"


def test_those_behind_come_in_when_one_that_waits_goes_and_when_the_limit_rises() -> None:
    ledger = _ledger(day_tokens=100)
    assert ledger.reserve(_want("first", 60)) == "held"
    assert ledger.reserve(_want("large", 90)) == "waits"
    assert ledger.reserve(_want("small", 10)) == "waits"
    assert ledger.reserve(_want("other", 35, "chat-2")) == "waits"
    assert ledger.give_back("large") == {"small": "held"}
    assert ledger.limit("a", Limits(day_tokens=100)) == {}
    assert ledger.limit("a", Limits(day_tokens=105)) == {"other": "held"}
    for call in ("first", "small", "other"):
        ledger.give_back(call)
    ledger.trim(0)
    assert not ledger._books


def test_a_session_that_has_used_up_its_own_limit_does_not_hold_up_another() -> None:
    ledger = _ledger(session_tokens=50, day_tokens=1000)
    assert ledger.reserve(_want("a1", 40)) == "held"
    assert ledger.reserve(_want("a2", 40)) == "waits"
    assert ledger.reserve(_want("b1", 40, "chat-2")) == "held"


def test_a_call_that_is_larger_than_what_is_left_waits_for_nobody() -> None:
    ledger = _ledger(day_tokens=100)
    assert ledger.reserve(_want("held", 60)) == "held"
    assert ledger.reserve(_want("too-large", 101)) == "never"
    assert ledger.reserve(_want("waits", 90)) == "waits"
    assert ledger.settle("held", Amount(500)) == {"waits": "never"}
    assert ledger.reserve(_want("next", 1)) == "never"
    ledger.limit("a", Limits(day_tokens=501))
    assert ledger.reserve(_want("raised", 1)) == "held"


def test_a_reservation_over_midnight_settles_on_the_day_on_which_it_began() -> None:
    ledger = _ledger(day_tokens=100)
    ledger.reserve(_want("old", 60))
    tomorrow = _want("new", 100, day=DAYS[1])
    assert ledger.reserve(tomorrow) == "held"
    ledger.settle("old", Amount(60))
    assert ledger.totals(tomorrow) == (Amount(160, 0), Amount(100, 0))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(30, 200))
def test_those_who_obey_use_a_limit_up_and_never_pass_it(sizes: list[int], limit: int) -> None:
    """Calls that spend half of what they reserve: all of them that fit in the end come in."""
    ledger, spent = _ledger(day_tokens=limit), 0
    running = [call for call, size in enumerate(sizes) if ledger.reserve(_want(f"c{call}", size)) == "held"]
    while running:
        call = running.pop(0)
        half = sizes[call] // 2
        spent += half
        moved = ledger.settle(f"c{call}", Amount(half))
        running += [int(name[1:]) for name, state in moved.items() if state == "held"]
        assert spent <= limit
    assert not any(ledger._queues.values())
    assert spent == sum(size // 2 for size in sizes) or spent + max(sizes) > limit
