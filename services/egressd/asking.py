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
_MOST_REFUSED: Final = 1_000
"""In a row: who asks on gets an answer twice a second, since each is a line in the audit log. A thousand calls at once
that find a limit reached are refused at once."""
_HESITATION_S: Final = 0.5
_MOST_SESSIONS: Final = 4_096


class _Own:
    """The turns of one session, while anybody waits for one."""

    def __init__(self) -> None:
        self.turns = anyio.CapacityLimiter(_MOST_OF_ONE)
        self.hesitating = anyio.Lock()


class Asking:
    """Asks over brokerd's socket for decisions."""

    def __init__(self, path: Path, limits: Relay) -> None:
        self._path = path
        self._limits = limits
        self._turns = anyio.CapacityLimiter(_MOST_AT_ONCE)
        self._of_one: WeakValueDictionary[str | None, _Own] = WeakValueDictionary()
        self._refused: dict[str | None, int] = {}
        """How often a session was refused in a row; the one refused last stands last."""

    async def __call__(self, request: EgressAsk) -> EgressDecision:
        """What brokerd says.

        Raises:
            Fault: it does not answer, or answers with an error.

        """
        own = self._of_one.get(request.session)
        if own is None:
            own = self._of_one[request.session] = _Own()
        async with own.turns:
            await self._hesitate(request.session, own)
            return await self._asked(request)

    async def _hesitate(self, session: str | None, own: _Own) -> None:
        """Let a session wait that asks on and on for what it does not get."""
        if self._refused.get(session, 0) >= _MOST_REFUSED:
            async with own.hesitating:
                await anyio.sleep(_HESITATION_S)

    async def _asked(self, request: EgressAsk) -> EgressDecision:
        async with self._turns:
            decision: EgressDecision = await call(
                self._path,
                request,
                EgressDecision,
                timeout_s=self._limits.ask_s,
                connect_within_s=_CONNECT_WITHIN_S,
                unreachable="brokerd-unreachable",
            )
        refused = self._refused.pop(request.session, 0)
        if not decision.allow:
            self._refused[request.session] = refused + 1
            if len(self._refused) > _MOST_SESSIONS:
                del self._refused[next(iter(self._refused))]
        return decision
