"""Decision contexts: each model call as it left and as it was answered, handed over to memoryd.

What a call leaves behind goes into a bounded queue, from there into the outbox on disk, from there to memoryd, whenever
that answers. What finds no room is dropped, told in the log and counted. The outbox outlives egressd; what still was in
the queue when egressd is killed is lost.

Calls come first: this work is done for many at once, in a moment in which none leaves, or when it has waited long.
"""

import itertools
import tempfile
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

import anyio
import anyio.to_thread

from egressd import outbox
from egressd.config import Contexts as Limits
from egressd.outbox import Full, Item, Outbox
from egressd.ports import Left
from egressd.recording import Recording, Taken
from proto.faults import Fault
from proto.messages.memory import KeepBegin, KeepBegun, KeepEnd, KeepPiece, KeepWhole
from proto.messages.wire import Ok
from proto.role.call import call
from proto.role.clock import Clock, stamp
from proto.role.log import logger

MOST_WAITING: Final = 4_096
MOST_WAITING_BYTES: Final = 64 << 20
_MOST_AT_ONCE: Final = 64
_IN_MEMORY_BYTES: Final = 64 << 10
_MOST_SESSIONS: Final = 4_096
_TRIES: Final = 3
_MANY: Final = 512
"""When so many wait in the outbox they are handed over whether calls leave or not: it must not fill up."""
_LULL_S: Final = 0.02
_LONGEST_TO_WRITE_S: Final = 0.2
_LONGEST_TO_SEND_S: Final = 2.0
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 15.0
_PASSING: Final = frozenset({"peer-unreachable", "busy", "memory-unavailable"})
"""Faults that pass by themselves, however long it takes."""


class Contexts:
    """What keeps model calls."""

    def __init__(
        self,
        *,
        folder: Path,
        socket: Path,
        limits: Limits,
        retention_days: Callable[[str], int],
        turns: Callable[[str], int],
        clock: Clock,
    ) -> None:
        """Take up the outbox; `turns` is asked once a session how many calls it has made, the one that leaves included.

        Raises:
            Fault: `egressd-start-failed`: the outbox cannot be used.

        """
        self.dropped = 0
        """How many contexts were lost since the start."""
        self._folder = folder
        self._socket = socket
        self._limits = limits
        self._retention_days = retention_days
        self._made = turns
        self._clock = clock
        self._turns: OrderedDict[str, int] = OrderedDict()
        self._queue: deque[Taken] = deque()
        self._queue_bytes = 0
        self._queued = anyio.Event()
        self._written = anyio.Event()
        self._thread = anyio.CapacityLimiter(1)
        self._left_at_s = 0.0
        try:
            self._outbox = Outbox(folder, limits.outbox_bytes)
        except OSError as error:
            raise Fault("egressd-start-failed", f"{folder}: {error.strerror}") from None

    def leaves(self, left: Left) -> Recording | None:
        """Begin to keep a call that leaves now; None where nothing is kept: no domain, or one that keeps for 0 days."""
        decision = left.decision
        if decision.domain is None or (days := self._retention_days(decision.domain)) == 0:
            return None
        self._left_at_s = time.monotonic()
        begun = KeepBegin(
            kept="contexts",
            session=left.session,
            call=left.call,
            domain=decision.domain,
            class_=decision.class_,
            untrusted=decision.untrusted,
            observed_by="egress",
            time=stamp(self._clock()),
            retention_days=days,
            context=None,
        )
        return Recording(
            left,
            begun,
            self._turn(left.session),
            spool=self._spool,
            most_bytes=self._limits.response_bytes,
            take=self._take,
            lost=self._lost,
        )

    async def run(self) -> None:
        """Write what is queued and hand over what is written, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write_all)
            tasks.start_soon(self._send_all)

    def close(self) -> None:
        """Write what is still queued."""
        while self._queue:
            taken = self._queue.popleft()
            if (why := self._write(taken)) is not None:
                self._lost(taken.begun, why)

    def _turn(self, session: str) -> int:
        """The number of a call in its session, from 1; a call that was refused may have had one too."""
        made = self._turns.pop(session, None)
        self._turns[session] = turn = self._made(session) if made is None else made + 1
        if len(self._turns) > _MOST_SESSIONS:
            self._turns.popitem(last=False)
        return turn

    def _spool(self) -> IO[bytes]:
        spool: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=str(self._folder))  # noqa: SIM115  (closed when written)
        return spool

    def _take(self, taken: Taken) -> None:
        if len(self._queue) >= MOST_WAITING or self._queue_bytes + taken.size_bytes > MOST_WAITING_BYTES:
            taken.close()
            self._lost(taken.begun, "too many wait to be written")
            return
        self._queue.append(taken)
        self._queue_bytes += taken.size_bytes
        self._queued.set()

    def _lost(self, begun: KeepBegin, why: str) -> None:
        self.dropped += 1
        logger().warning(
            "context-dropped", session=begun.session, call=begun.call, why=why, dropped_since_start=self.dropped
        )

    async def _lull(self, longest_s: float) -> None:
        """Wait for a moment in which no call leaves, but not for long."""
        until_s = time.monotonic() + longest_s
        while 0 < (wait_s := self._left_at_s + _LULL_S - time.monotonic()) < until_s - time.monotonic():  # noqa: ASYNC110
            await anyio.sleep(wait_s)  # what is waited for is that nothing happens

    async def _write_all(self) -> None:
        while True:
            self._queued = anyio.Event()
            while self._queue:
                await self._lull(_LONGEST_TO_WRITE_S)
                await self._write_some()
            await self._queued.wait()

    async def _write_some(self) -> None:
        some = [self._queue.popleft() for _ in range(min(len(self._queue), _MOST_AT_ONCE))]
        try:
            problems = await anyio.to_thread.run_sync(lambda: [self._write(one) for one in some], limiter=self._thread)
        except anyio.get_cancelled_exc_class():
            # A thread that has begun is not cancelled; this one has not.
            self._queue.extendleft(reversed(some))
            raise
        self._queue_bytes -= sum(taken.size_bytes for taken in some)
        for taken, why in zip(some, problems, strict=True):
            if why is not None:
                self._lost(taken.begun, why)
        self._written.set()

    def _write(self, taken: Taken) -> str | None:
        """Write a call to the outbox; why that cannot be."""
        try:
            self._outbox.write(taken.begun, taken.bodies())
        except Full:
            return "no room in the outbox: memoryd does not take what waits, or the disk is nearly full"
        except (OSError, ValueError) as error:
            return f"the outbox cannot be written: {error}"
        finally:
            taken.close()
        return None

    async def _send_all(self) -> None:
        while True:
            self._written = anyio.Event()
            while some := self._outbox.oldest(_MOST_AT_ONCE):
                if len(self._outbox) < _MANY:
                    await self._lull(_LONGEST_TO_SEND_S)
                for path in some:
                    if (why := await self._sent(path)) is not None:
                        self.dropped += 1
                        logger().warning("context-dropped", file=path.name, why=why, dropped_since_start=self.dropped)
                await anyio.to_thread.run_sync(self._outbox.remove, some, limiter=self._thread)
            await self._written.wait()

    async def _sent(self, path: Path) -> str | None:
        """Hand an item over, however long memoryd is away; why it never can be."""
        refusals = 0
        for failures in itertools.count(1):
            try:
                item = outbox.read(path)
                if item is None:
                    return "its file is damaged"
                await self._hand_over(path, item)
            except (OSError, ValueError) as error:
                return f"its file cannot be read: {error}"
            except Fault as fault:
                refusals += fault.code not in _PASSING
                if refusals >= _TRIES:
                    return str(fault)
                if failures == 1:
                    logger().warning("contexts-not-taken", waiting=len(self._outbox), why=str(fault))
                await anyio.sleep(min(_FIRST_PAUSE_S * 2 ** min(failures, 10), _LONGEST_PAUSE_S))
            else:
                if failures > 1:
                    logger().info("contexts-taken-again", waiting=len(self._outbox) - 1)
                return None
        raise AssertionError

    async def _hand_over(self, path: Path, item: Item) -> None:
        if sum(part.size_bytes for part in item.parts) <= outbox.PIECE_BYTES:
            bodies = outbox.bodies(path, item)
            await call(self._socket, KeepWhole(begun=item.begun, parts=item.parts, bodies=bodies), Ok)
            return
        handle = (await call(self._socket, item.begun, KeepBegun)).handle
        for part, offset, data in outbox.pieces(path, item):
            await call(self._socket, KeepPiece(handle=handle, part=part, offset=offset, data=data), Ok)
        await call(self._socket, KeepEnd(handle=handle, parts=item.parts, context=None), Ok)
