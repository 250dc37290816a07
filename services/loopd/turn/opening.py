"""Before a turn: a new session is opened, or an old one is loaded, taken up again at brokerd, and repaired."""

from collections.abc import Callable
from typing import Final, NamedTuple

import anyio.to_thread

from loopd.config import Config
from loopd.ports.broker import BrokerPort
from loopd.ports.memory import MemoryPort
from loopd.session.baseline import Baseline, Origin, assemble
from loopd.session.records import Call, Record, ToolResult, position
from loopd.session.store import Loaded, Store
from proto.faults import Fault
from proto.ids import new_chat_id
from proto.labels import Label
from proto.role.clock import Clock, stamp
from proto.role.log import logger

INTERRUPTED: Final = "interrupted: the box stopped before this call's result was kept; it may or may not have been done"
_TRIES: Final = 3


class Opened(NamedTuple):
    """A session that is ready for a turn, with its label as brokerd holds it."""

    loaded: Loaded
    label: Label


class Opening:
    """Opens sessions: brokerd knows each before its first record, and memoryd's block is in each."""

    def __init__(self, store: Store, memory: MemoryPort, broker: BrokerPort, config: Config, clock: Clock) -> None:
        self._store = store
        self._memory = memory
        self._broker = broker
        self._config = config
        self._clock = clock
        self._known: set[str] = set()

    async def begin(self, origin: Origin, check: Callable[[Baseline], None]) -> Opened:
        """A new session whose id is given, on disk; raises as `new`.

        brokerd may know it already: a crash came before it was on this disk.
        """
        block = await self._memory.block()
        baseline = assemble(origin.session, stamp(self._clock()), self._config.model, block, origin)
        check(baseline)
        try:
            label = await self._broker.open(baseline, new=True, label=origin.label)
        except Fault as fault:
            if fault.code != "session-exists":
                raise
            label = await self._broker.open(baseline, new=False, label=origin.label)
        return self._created(baseline, label)

    async def raised(self, opened: Opened, label: Label) -> Opened:
        """An opened session after a label was joined into its own.

        Raises:
            Fault: `brokerd-unreachable`, `session-not-open`.

        """
        return Opened(opened.loaded, await self._broker.raised(opened.loaded.baseline.session, label))

    async def new(self, check: Callable[[Baseline], None]) -> Opened:
        """A new session, on disk; `check` may refuse its baseline before there is anything.

        Raises:
            Fault: `memory-unavailable`, `brokerd-unreachable`, or what `check` raises.

        """
        block = await self._memory.block()
        for tries_left in reversed(range(_TRIES)):
            baseline = assemble(self._new_id(), stamp(self._clock()), self._config.model, block)
            check(baseline)
            try:
                label = await self._broker.open(baseline, new=True)
            except Fault as fault:
                # Six hexadecimal digits a second: the same id twice is rare, and no reason to fail.
                if fault.code != "session-exists" or not tries_left:
                    raise
            else:
                break
        return self._created(baseline, label)

    def _created(self, baseline: Baseline, label: Label) -> Opened:
        self._store.create(baseline)
        self._known.add(baseline.session)
        return Opened(Loaded(baseline, [], position([])), label)

    async def resume(self, session: str) -> Opened:
        """A session that is there, with a result for every call.

        Raises:
            Fault: `session-unknown`, `session-damaged`, `session-state-lost`, `brokerd-unreachable`.

        """
        loaded = await anyio.to_thread.run_sync(self._store.load, session)
        label = await self._label(loaded.baseline)
        return Opened(self._repaired(loaded, label), label)

    async def _label(self, baseline: Baseline) -> Label:
        """The session's label; the session is taken up once in the life of this process, and when brokerd closed it."""
        if baseline.session in self._known:
            try:
                return await self._broker.label(baseline.session)
            except Fault as fault:
                if fault.code != "session-not-open":
                    raise
        label = await self._broker.open(baseline, new=False)
        self._known.add(baseline.session)
        return label

    def _repaired(self, loaded: Loaded, label: Label) -> Loaded:
        """The log after each call without a result got one: once, with the session's label of this moment."""
        calls = loaded.position.open_calls
        if not calls:
            return loaded
        time = stamp(self._clock())
        results: list[Record] = [_interrupted(call, label, time) for call in calls]
        self._store.append(loaded.baseline.session, *results)
        logger().warning("log-repaired", session=loaded.baseline.session, calls=len(calls))
        records = [*loaded.records, *results]
        return Loaded(loaded.baseline, records, position(records))

    def _new_id(self) -> str:
        return new_chat_id(f"{self._clock():%Y%m%d-%H%M%S}")


def _interrupted(call: Call, label: Label, time: str) -> ToolResult:
    return ToolResult(
        time=time,
        call=call.id,
        name=call.name,
        content=INTERRUPTED,
        class_=label.class_,
        untrusted=label.untrusted,
    )
