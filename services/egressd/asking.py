"""Asking brokerd: may these bytes leave, now?"""

from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

import anyio

from egressd.config import Relay
from proto.messages.broker import EgressAsk, EgressDecision
from proto.role.call import call
from proto.role.serve import MOST_CONNECTIONS

_CONNECT_WITHIN_S: Final = 2.0
"""A brokerd that is being started again is waited for so long."""
_MOST_AT_ONCE: Final = MOST_CONNECTIONS * 3 // 4
"""brokerd tells what comes above its bound that it is busy; a question waits here for its turn instead."""

_MOST_OF_ONE: Final = 6
"""Of one session, so that another's question does not wait behind all of those that a busy one has, and so that of many
calls at once the first leave while the last are still asked about."""


class Asking:
    """Asks over brokerd's socket for decisions."""

    def __init__(self, path: Path, limits: Relay) -> None:
        self._path = path
        self._limits = limits
        self._turns = anyio.CapacityLimiter(_MOST_AT_ONCE)
        self._of_one: WeakValueDictionary[str | None, anyio.CapacityLimiter] = WeakValueDictionary()

    async def __call__(self, request: EgressAsk) -> EgressDecision:
        """What brokerd says.

        Raises:
            Fault: it does not answer, or answers with an error.

        """
        own = self._of_one.get(request.session)
        if own is None:
            own = self._of_one[request.session] = anyio.CapacityLimiter(_MOST_OF_ONE)
        async with own, self._turns:
            decision: EgressDecision = await call(
                self._path,
                request,
                EgressDecision,
                timeout_s=self._limits.ask_s,
                connect_within_s=_CONNECT_WITHIN_S,
                unreachable="brokerd-unreachable",
            )
        return decision
