"""The calls under way, so that a label that rises reaches them (contract, "Directions, again").

A call enters before brokerd is asked: a label that rises after the decision finds it here, and one that rose before is
in the decision.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from proto.labels import DataClass

_CLOSED_WITHIN_S: Final = 1.0


class Flight:
    """One call: whose it is (None: no session's), how high its destination's ceiling is, and how to stop it."""

    def __init__(self, session: str | None, ceiling: DataClass) -> None:
        self.session = session
        self.ceiling = ceiling
        self.scope = anyio.CancelScope()
        self.label_rose = False
        self.landed: anyio.Event | None = None
        """Set when a call that was cut is over."""
        self.on_cut: Callable[[], None] | None = None
        """Makes the connection unable to carry another byte, at once."""

    def cut(self) -> anyio.Event:
        """Stop the call: nothing more of it leaves. The event is set when it is over."""
        self.label_rose = True
        if self.on_cut is not None:
            self.on_cut()
        self.scope.cancel()
        if self.landed is None:
            self.landed = anyio.Event()
        return self.landed


class Flights:
    """Every call under way."""

    def __init__(self) -> None:
        self._flying: set[Flight] = set()

    @contextmanager
    def enter(self, session: str | None, ceiling: DataClass) -> Iterator[Flight]:
        """A call, from before it is asked about until its connection is closed."""
        flight = Flight(session, ceiling)
        self._flying.add(flight)
        try:
            with flight.scope:
                yield flight
        finally:
            self._flying.discard(flight)
            if flight.landed is not None:
                flight.landed.set()

    async def label_rises(self, session: str, class_: DataClass) -> int:
        """Close a session's calls to destinations that are now too low; how many there were."""
        too_low = [one for one in self._flying if one.session == session and one.ceiling.rank < class_.rank]
        landed = [flight.cut() for flight in too_low]
        with anyio.move_on_after(_CLOSED_WITHIN_S):
            for one in landed:
                await one.wait()
        return len(landed)
