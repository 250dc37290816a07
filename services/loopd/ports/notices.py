"""Word to memoryd of new records, which holds no answer up.

A turn waits a moment for it, since then the next session can recall this one at once. Where memoryd is slow, its
answer is waited for behind the turn's back; what becomes new in a session meanwhile is one more word, not one each.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.abc

_MOMENT_SECONDS: Final = 0.3


class Notices:
    """The words that are on their way. `send` tells memoryd of a session, and ends whatever comes of it."""

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._next: dict[str, anyio.Event] = {}
        self._sending: set[str] = set()

    async def tell(self, tasks: anyio.abc.TaskGroup, session: str) -> None:
        """Tell memoryd of a session's records up to now, in `tasks`; return when it knows, or after a moment."""
        told = self._next.setdefault(session, anyio.Event())
        if session not in self._sending:
            self._sending.add(session)
            tasks.start_soon(self._send_all, session)
        with anyio.move_on_after(_MOMENT_SECONDS):
            await told.wait()

    async def _send_all(self, session: str) -> None:
        try:
            while told := self._next.pop(session, None):
                await self._send(session)
                told.set()
        finally:
            self._sending.discard(session)
