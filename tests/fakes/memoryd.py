"""A memoryd for tests of brokerd, over the real socket.

Features: records every `memory_call` (`began` is set by the first); answers with what `answer` gives for it (a text under a label by default), an `Error`
too; with `gate` set, waits for that event before it answers; with `silent`, hangs up without an answer.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec

from proto.faults import Fault
from proto.labels import PRIVATE, Label
from proto.messages.broker import ToolResponse
from proto.messages.memory import MemoryCall
from proto.messages.wire import Ping
from proto.role.listen import listen
from proto.role.serve import Connection, Server
from proto.sockets import socket


class FakeMemoryd:
    """One listener, in the event loop of the test."""

    def __init__(self, home: Path) -> None:
        self.path = socket("broker-memory").at(home)
        self.calls: list[MemoryCall] = []
        self.label = PRIVATE
        self.answer: Callable[[MemoryCall], msgspec.Struct] = self.remembered
        self.began = anyio.Event()
        self.gate: anyio.Event | None = None
        self.silent = False

    def remembered(self, call: MemoryCall) -> ToolResponse:
        """A text under `label`."""
        return self.response(call, f"done: {call.request.tool}", self.label)

    @staticmethod
    def response(call: MemoryCall, text: str, label: Label, *, ok: bool = True) -> ToolResponse:
        """A `tool_response` to a call."""
        return ToolResponse(call=call.request.call, ok=ok, text=text, class_=label.class_, untrusted=label.untrusted)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["FakeMemoryd"]:
        """Serve inside the block."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Server("fake-memoryd", (Ping, MemoryCall), self._desk).serve, listen(self.path))
            yield self
            tasks.cancel_scope.cancel()

    async def _desk(self, request: MemoryCall, connection: Connection) -> msgspec.Struct:
        self.calls.append(request)
        self.began.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.silent:
            raise anyio.BrokenResourceError
        answer = self.answer(request)
        if isinstance(answer, Refusal):
            raise Fault(answer.code)
        return answer


class Refusal(msgspec.Struct, frozen=True):
    """An answer that becomes an `error` frame with this code."""

    code: str
