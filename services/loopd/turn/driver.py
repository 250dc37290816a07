"""Does what the machine of a turn says: appends, asks the model and brokerd, tells the listener."""

from collections import deque
from collections.abc import Callable
from typing import Final

import anyio
import msgspec

from loopd.config import Model
from loopd.ports.broker import BrokerPort
from loopd.ports.completion import Completion
from loopd.ports.model import ModelPort, Request
from loopd.session.prompt import body
from loopd.session.records import Assistant
from loopd.session.store import Loaded, Store
from loopd.turn.machine import Machine
from loopd.turn.steps import (
    Append,
    ApprovalAsked,
    AskModel,
    Cancelled,
    CancelModel,
    Command,
    Deny,
    Emit,
    Event,
    Finish,
    RunTool,
    Stop,
)
from proto.faults import Fault
from proto.messages.broker import ApprovalAnswer
from proto.messages.loop import ChatDelta
from proto.role.log import logger

_DELTA_CHARS: Final = 100_000
"""Four bytes a character, and the frame is still small."""


class Driver:
    """One turn of one session, with its I/O."""

    def __init__(
        self,
        loaded: Loaded,
        machine: Machine,
        store: Store,
        ports: tuple[BrokerPort, ModelPort],
        model: Model,
        emit: Callable[[msgspec.Struct], None],
    ) -> None:
        self._baseline = loaded.baseline
        self._records = list(loaded.records)
        self._machine = machine
        self._store = store
        self._broker, self._model = ports
        self._settings = model
        self._emit = emit
        self._stop = anyio.Event()
        self._asking: anyio.CancelScope | None = None
        self._cancelled = False

    @property
    def count(self) -> int:
        """How many records the log has."""
        return len(self._records)

    @property
    def is_answered(self) -> bool:
        """Whether the log ends with an answer."""
        last = self._records[-1] if self._records else None
        return isinstance(last, Assistant) and not last.tool_calls

    async def run(self, first: Event, stop: anyio.Event) -> Finish:
        """Run the turn to its end; `stop` ends it at the next safe point.

        Raises:
            Fault: `internal`: a record could not be written. The log is whole as far as it goes.

        """
        self._stop = stop
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, stop)
            try:
                ended: Finish | Fault = await self._until_finished(first)
            except Fault as fault:
                # Raised again outside: a task group would wrap it.
                ended = fault
            tasks.cancel_scope.cancel()
        if isinstance(ended, Fault):
            raise ended
        return ended

    async def _until_finished(self, first: Event) -> Finish:
        commands = deque(self._machine.handle(first))
        while True:
            command = commands.popleft()
            if isinstance(command, Finish):
                return command
            if event := await self._do(command):
                commands.extend(self._machine.handle(event))

    async def _watch(self, stop: anyio.Event) -> None:
        await stop.wait()
        for command in self._machine.handle(Stop()):
            await self._do(command)

    async def _do(self, command: Command) -> Event | None:
        """Do one thing; the event that it ends with, if the machine waits for one."""
        match command:
            case Append(record):
                self._store.append(self._baseline.session, record)
                self._records.append(record)
            case Emit(message):
                self._emit(message)
            case AskModel(final):
                return await self._ask(final=final)
            case RunTool(wanted):
                return await self._broker.run(self._baseline.session, wanted, self._asked, self._stop)
            case CancelModel():
                self._cancelled = True
                if self._asking is not None:
                    self._asking.cancel()
            case Deny(approval):
                await self._deny(approval)
            case Finish():
                raise ValueError("a turn ends in `run`")
        return None

    async def _ask(self, *, final: bool) -> Event:
        output_tokens = self._machine.window.output
        data = body(self._baseline, self._records, output_tokens, self._settings.output_field, final=final)
        request = Request(self._baseline.destination, self._baseline.session, data)
        completion = Completion(len(data))
        with anyio.CancelScope() as self._asking:
            if self._cancelled:
                # The stop came before the question was asked.
                self._asking.cancel()
            return await self._model.complete(request, completion, self._show)
        return Cancelled(completion.content.whole())

    def _show(self, words: str) -> None:
        for begin in range(0, len(words), _DELTA_CHARS):
            self._emit(ChatDelta(text=words[begin : begin + _DELTA_CHARS]))

    async def _asked(self, asked: ApprovalAsked) -> None:
        for command in self._machine.handle(asked):
            await self._do(command)

    async def _deny(self, approval: str) -> None:
        try:
            await self._broker.answer(ApprovalAnswer(approval=approval, allow=False, by="stop"))
        except Fault as fault:
            # It was answered meanwhile, or brokerd is gone: the call ends by itself either way.
            logger().warning("approval-not-denied", approval=approval, code=fault.code)
