"""The books of calls: a row for each in the store."""

from typing import Final, NamedTuple

from egressd.ports import Beginning, Ending
from egressd.store import Begun, Settled, UsageStore
from proto.messages.broker import Spending
from proto.role.clock import Clock, stamp


class Unlimited(NamedTuple):
    """A call that no limit holds for."""

    spending: Spending | None = None
    held: bool = True


_UNLIMITED: Final = Unlimited()


class PlainBooks:
    """Rows without reservations."""

    def __init__(self, store: UsageStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def begin(self, call: Beginning) -> Unlimited:
        """Write the row of a call."""
        self._store.begin(
            Begun(
                call=call.call,
                session=call.session,
                destination=call.destination,
                model=call.model,
                began=stamp(self._clock()),
            )
        )
        return _UNLIMITED

    def settle(self, call: Ending) -> None:
        """Settle the row of a call."""
        self._store.settle(
            Settled(
                call=call.call,
                status=call.status,
                ended=call.ended,
                partial=call.sent and not call.complete,
                finished=stamp(self._clock()),
                usage=call.usage,
                model=call.model,
            )
        )
