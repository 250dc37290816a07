"""One after the other: the acts that touch the files of memory/ take turns, each in a thread, so that pings stay quick.

An act that has begun is finished, whatever becomes of the connection or of the daemon that was told to stop.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread

from proto.faults import Fault

P = ParamSpec("P")
T = TypeVar("T")


class Turns:
    """A line of acts, first come, first served."""

    def __init__(self) -> None:
        self._turn = anyio.Lock()
        self._thread = anyio.CapacityLimiter(1)

    async def take(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an act when its turn comes.

        Raises:
            Fault: of the act; `memory-unavailable` when the disk refuses.

        """
        async with self._turn:
            try:
                return await anyio.to_thread.run_sync(lambda: act(*args, **kwargs), limiter=self._thread)
            except OSError as error:
                raise Fault("memory-unavailable", f"the disk refused: {error}") from None
