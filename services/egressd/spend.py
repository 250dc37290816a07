"""What may be spent: reserved before a call, settled after it, given back when nothing was spent. No I/O, no clock.

A call spends from two accounts: its session's at a destination, and the destination's of a day. The laws (tested):

1. No reservation is held that takes an account above a limit, with all else that is spent and held there.
2. What was held is settled or given back once, exactly, in the accounts and on the day in which it was held.
3. A call that spent more than it had reserved is booked in full, and what follows finds the account as it is.
4. The calls of a session that wait are let in in the order of coming, and nobody passes one of the own session. One of
   another session is passed only by what fits with the first that waits of each session before it counted in: nobody
   waits for one that came later, so a large call is not starved by small ones.
5. Nobody waits for room that cannot come: what is spent is never given back.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

MOST: Final = 1 << 44
"""No single call reserves or counts more, in tokens or in nano-dollars, so that sums of very many fit the wire."""

State = Literal["held", "waits", "never"]


class Amount(NamedTuple):
    """Tokens in and out, and nano-dollars; None of these for a call that no price or no bill counts in money."""

    tokens: int = 0
    nusd: int | None = None


class Limits(NamedTuple):
    """What may be spent of a session's account at a destination and of a day's; None where there is no limit."""

    session_tokens: int | None = None
    day_tokens: int | None = None
    session_nusd: int | None = None
    day_nusd: int | None = None


NO_LIMITS: Final = Limits()


class Account(NamedTuple):
    """The name of an account: a session's at a destination, or (`session` None) the destination's of a day of UTC."""

    destination: str
    session: str | None
    day: str | None


class Want(NamedTuple):
    """What a call would reserve; `day` is UTC's, of the reservation's beginning."""

    call: str
    session: str
    destination: str
    day: str
    amount: Amount

    @property
    def accounts(self) -> tuple[Account, Account]:
        """The session's account and the day's."""
        return Account(self.destination, self.session, None), Account(self.destination, None, self.day)


class _Sum:
    """A sum of amounts."""

    __slots__ = ("nusd", "tokens")

    def __init__(self, tokens: int = 0, nusd: int = 0) -> None:
        self.tokens = tokens
        self.nusd = nusd

    def add(self, amount: Amount, sign: int = 1) -> None:
        self.tokens += sign * amount.tokens
        self.nusd += sign * (amount.nusd or 0)

    def leaves_room(self, amount: Amount, tokens: int | None, nusd: int | None, ahead: "_Sum") -> bool:
        """Whether an amount fits under limits on top of this sum and what others want before it."""
        if tokens is not None and self.tokens + ahead.tokens + amount.tokens > tokens:
            return False
        return nusd is None or amount.nusd is None or self.nusd + ahead.nusd + amount.nusd <= nusd


_NOTHING: Final = _Sum()


class _Book:
    """One account: what is spent, that with what is held, and how many calls hold of it or wait for it."""

    __slots__ = ("calls", "spent", "taken")

    def __init__(self, spent: Amount) -> None:
        self.spent = _Sum(spent.tokens, spent.nusd or 0)
        self.taken = _Sum(spent.tokens, spent.nusd or 0)
        self.calls = 0


class _Entered(NamedTuple):
    """A call that holds or waits, with its books: the session's and the day's, which stay while it does."""

    want: Want
    books: tuple[_Book, _Book]


class _Waiting(NamedTuple):
    """A call that waits for room, with its number in the order of coming."""

    number: int
    entered: _Entered

    @property
    def want(self) -> Want:
        """What it would reserve."""
        return self.entered.want


class Ledger:
    """The accounts, what is held in them and who waits."""

    def __init__(self) -> None:
        self._books: dict[Account, _Book] = {}
        self._limits: dict[str, Limits] = {}
        self._held: dict[str, _Entered] = {}
        self._queues: dict[str, dict[str, deque[_Waiting]]] = {}
        self._came = 0

    def knows(self, account: Account) -> bool:
        """Whether what was spent of an account is known; if not, `seed` it before anything is reserved there."""
        return account in self._books

    def seed(self, account: Account, spent: Amount) -> None:
        """Say what was spent of an account before."""
        self._books[account] = _Book(spent)

    def trim(self, keep: int) -> None:
        """Forget the oldest accounts of which nothing is held and for which nobody waits, down to a number."""
        over = len(self._books) - keep
        if over > 0:
            idle = [account for account, book in self._books.items() if not book.calls]
            for account in idle[:over]:
                del self._books[account]

    def limit(self, destination: str, limits: Limits) -> dict[str, State]:
        """Say what the limits of a destination are from now on; whom that lets in, or leaves without hope."""
        if self._limits.get(destination, NO_LIMITS) == limits:
            return {}
        self._limits[destination] = limits
        return dict(self._moved(destination))

    def reserve(self, want: Want) -> State:
        """Hold what a call may spend, or let it wait for room; `never`: it would not fit if all others gave back."""
        queues = self._queues.setdefault(want.destination, {})
        alone = want.session not in queues
        ahead = self._ahead(queues, want.day) if alone else _NOTHING
        entered = _Entered(want, self._books_of(want))
        state = self._state(entered, ahead)
        if state == "never":
            return state
        for book in entered.books:
            book.calls += 1
        if state == "held" and alone:
            self._hold(entered)
            return "held"
        self._came += 1
        queues.setdefault(want.session, deque()).append(_Waiting(self._came, entered))
        return "waits"

    def settle(self, call: str, spent: Amount) -> dict[str, State]:
        """Book what a call spent in place of what was held for it; whom that lets in, or leaves without hope."""
        want, books = self._held.pop(call)
        for book in books:
            book.calls -= 1
            book.spent.add(spent)
            book.taken.add(want.amount, -1)
            book.taken.add(spent)
        return dict(self._moved(want.destination))

    def give_back(self, call: str) -> dict[str, State]:
        """Let a call go that spent nothing, or that waits no longer; whom that lets in."""
        if call in self._held:
            return self.settle(call, Amount())
        for destination, queues in self._queues.items():
            for session, queue in queues.items():
                found = next((one for one in queue if one.want.call == call), None)
                if found is not None:
                    queue.remove(found)
                    self._left(found.entered)
                    if not queue:
                        del queues[session]
                    return dict(self._moved(destination))
        return {}

    def holds(self, call: str) -> bool:
        """Whether something is held for a call."""
        return call in self._held

    def totals(self, want: Want) -> tuple[Amount, Amount]:
        """What is spent of the session's account and of the day's once a call has spent all that it wants."""
        held = self._held.get(want.call)
        own = want.amount if held is None else Amount()
        session, day = self._books_of(want) if held is None else held.books
        return (
            Amount(session.taken.tokens + own.tokens, session.taken.nusd + (own.nusd or 0)),
            Amount(day.taken.tokens + own.tokens, day.taken.nusd + (own.nusd or 0)),
        )

    def _books_of(self, want: Want) -> tuple[_Book, _Book]:
        of_session, of_day = want.accounts
        return self._book(of_session), self._book(of_day)

    def _book(self, account: Account) -> _Book:
        book = self._books.get(account)
        if book is None:
            book = self._books[account] = _Book(Amount())
        return book

    def _state(self, entered: _Entered, ahead: _Sum) -> State:
        want, (session, day) = entered
        limits = self._limits.get(want.destination, NO_LIMITS)
        if limits == NO_LIMITS:
            return "held"
        of_session = (want.amount, limits.session_tokens, limits.session_nusd)
        of_day = (want.amount, limits.day_tokens, limits.day_nusd)
        if not (session.spent.leaves_room(*of_session, _NOTHING) and day.spent.leaves_room(*of_day, _NOTHING)):
            return "never"
        fits = session.taken.leaves_room(*of_session, _NOTHING) and day.taken.leaves_room(*of_day, ahead)
        return "held" if fits else "waits"

    def _hold(self, entered: _Entered) -> None:
        self._held[entered.want.call] = entered
        for book in entered.books:
            book.taken.add(entered.want.amount)

    @staticmethod
    def _left(entered: _Entered) -> None:
        for book in entered.books:
            book.calls -= 1

    @staticmethod
    def _ahead(queues: dict[str, deque[_Waiting]], day: str) -> _Sum:
        """What the first that waits of each session wants of a day."""
        total = _Sum()
        for queue in queues.values():
            if queue[0].want.day == day:
                total.add(queue[0].want.amount)
        return total

    def _moved(self, destination: str) -> Iterator[tuple[str, State]]:
        """Go through the first of each session, in the order of their coming, and those who become the first."""
        queues = self._queues.get(destination, {})
        firsts = [(queue[0].number, session) for session, queue in queues.items()]
        heapq.heapify(firsts)
        ahead: dict[str, _Sum] = {}
        while firsts:
            _, session = heapq.heappop(firsts)
            queue = queues[session]
            entered = queue[0].entered
            want = entered.want
            before = ahead.setdefault(want.day, _Sum())
            state = self._state(entered, before)
            if state == "waits":
                before.add(want.amount)
                continue
            queue.popleft()
            if state == "held":
                self._hold(entered)
            else:
                self._left(entered)
            yield want.call, state
            if queue:
                heapq.heappush(firsts, (queue[0].number, session))
            else:
                del queues[session]
