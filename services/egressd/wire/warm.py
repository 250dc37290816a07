"""Connections that stay open for a moment after an answer, so that the next call need not greet again.

Laws (tested):

1. Only a connection with TLS is kept: one without leads to this machine, and is made in no time.
2. It is kept only after an exchange that ended as HTTP says it must, and only for the session that it served.
3. Whatever comes on it while it is idle, a byte or its end, ends it: what was sent to one call is read by no other.
4. It is not given out in its first moment, in which a server that wants to close does so.
5. It is closed when nobody has wanted it for some time.

A request that fails on a kept connection is not sent a second time: the upstream may have taken it.
"""

import contextlib
from collections import defaultdict
from collections.abc import Hashable
from typing import Final

import anyio
import anyio.abc

from egressd.wire.dial import Upstream

_AT_LEAST_IDLE_S: Final = 0.25
_MOST_OF_ONE: Final = 4
"""Kept for one session at one destination."""
_MOST: Final = 64


class _Idle:
    """A connection that nobody uses, watched until it is taken, dies or has been idle for too long."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.scope = anyio.CancelScope()
        self.since = anyio.current_time()
        self.heard = False
        self.taken = False
        self.watched = anyio.Event()


class Warm:
    """The connections that are kept, by whom they may serve."""

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s
        self._kept: defaultdict[Hashable, list[_Idle]] = defaultdict(list)
        self._count = 0
        self._tasks: anyio.abc.TaskGroup | None = None

    async def run(self) -> None:
        """Watch what is kept until cancelled; before, and after, nothing is kept."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    async def take(self, whom: Hashable) -> Upstream | None:
        """The connection that was used last, or None."""
        for idle in self._kept.get(whom, [])[::-1]:
            if idle.taken or anyio.current_time() - idle.since < _AT_LEAST_IDLE_S:
                continue
            idle.taken = True
            idle.scope.cancel()
            with anyio.CancelScope(shield=True):
                await idle.watched.wait()
            if not idle.heard:
                return idle.upstream
            await idle.upstream.aclose()
        return None

    def keep(self, whom: Hashable, upstream: Upstream) -> bool:
        """Keep a connection after a proper end of an exchange; false when it is not, and is the caller's to close."""
        if self._tasks is None or self._count >= _MOST or len(self._kept.get(whom, ())) >= _MOST_OF_ONE:
            return False
        idle = _Idle(upstream)
        self._kept[whom].append(idle)
        self._count += 1
        self._tasks.start_soon(self._watch, whom, idle)
        return True

    async def _watch(self, whom: Hashable, idle: _Idle) -> None:
        try:
            idle.scope.deadline = anyio.current_time() + self._idle_s
            with idle.scope:
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await idle.upstream.receive()
                idle.heard = True
        finally:
            self._forget(whom, idle)
            idle.watched.set()
            if not idle.taken:
                await idle.upstream.aclose()

    def _forget(self, whom: Hashable, idle: _Idle) -> None:
        self._count -= 1
        self._kept[whom].remove(idle)
        if not self._kept[whom]:
            del self._kept[whom]
