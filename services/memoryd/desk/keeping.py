"""Keeping the kept items in order, beside the answering: listed at start, and erased when their time has come."""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.from_thread
import anyio.to_thread

from memoryd.holdings import Holdings
from proto.role.clock import Clock, stamp
from proto.role.log import logger

Act = Callable[[], Awaitable[None]]
_EVERY_S: Final = 60.0
_PATIENCE_S: Final = 20.0


class Keeping:
    """The task that does it."""

    def __init__(self, holdings: Holdings, clock: Clock) -> None:
        self._holdings = holdings
        self._clock = clock
        self._listed = anyio.Event()
        self._thread = anyio.CapacityLimiter(1)
        self.inbox_thread = anyio.CapacityLimiter(1)
        """What is handed over has one thread, which the desk shares."""

    async def run(self) -> None:
        """List what there is; then sweep, now and every minute, until cancelled."""
        await self._safely(self._list)
        self._listed.set()
        while True:
            await self._safely(self.sweep)
            await anyio.sleep(_EVERY_S)

    async def listed(self) -> None:
        """Wait until the list is whole, or for a while."""
        with anyio.move_on_after(_PATIENCE_S):
            await self._listed.wait()

    async def sweep(self) -> None:
        """Erase what is due, and drop what nobody went on handing over."""
        inbox, kept = self._holdings.inbox, self._holdings.kept
        for begun in await anyio.to_thread.run_sync(inbox.drop_stale, limiter=self.inbox_thread):
            logger().warning("unfinished-item-dropped", session=begun.session, call=begun.call)
        now = stamp(self._clock())
        erased = await anyio.to_thread.run_sync(
            kept.sweep, now, anyio.from_thread.check_cancelled, limiter=self._thread
        )
        if erased:
            logger().info("kept-swept", items=erased)

    async def _list(self) -> None:
        kept = self._holdings.kept
        items = await anyio.to_thread.run_sync(kept.take_up, anyio.from_thread.check_cancelled, limiter=self._thread)
        logger().info("kept-listed", items=items)

    @staticmethod
    async def _safely(act: Act) -> None:
        try:
            await act()
        except OSError as error:
            logger().error("kept-not-in-order", error=str(error))
        except Exception:  # noqa: BLE001  (whatever a hand put into record/, the daemon answers, and sweeps again)
            logger().exception("kept-not-in-order")
