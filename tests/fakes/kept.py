"""A memoryd that takes decision contexts, over the real socket, in the event loop of the test.

Features: checks offsets, sizes and digests as memoryd does; `items` are those that were ended, with their bodies, each
call once; `faults` are codes that are answered first, one a request; `taken` is set by each item; it may come late, go
and come again (`running` is used as often as is wanted).
"""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

from proto.faults import Fault
from proto.messages.memory import KeepBegin, KeepBegun, KeepEnd, KeepPiece, KeepWhole, KeptPart
from proto.messages.wire import Ok
from proto.role.listen import listen
from proto.role.serve import Connection, Server
from proto.sockets import socket


class Kept(NamedTuple):
    """An item as it was handed over."""

    begun: KeepBegin
    parts: list[KeptPart]
    bodies: dict[str, bytes]


class FakeKeeper:
    """One listener."""

    def __init__(self, home: Path) -> None:
        self.path = socket("egress-memory").at(home)
        self.items: dict[str, Kept] = {}
        self.faults: list[str] = []
        self.asked = 0
        self._unfinished: dict[str, Kept] = {}
        self._taken = anyio.Event()

    async def wait_for(self, count: int) -> list[Kept]:
        """The items once there are so many."""
        with anyio.fail_after(20):
            while len(self.items) < count:
                self._taken = anyio.Event()
                await self._taken.wait()
        return list(self.items.values())

    @asynccontextmanager
    async def running(self) -> AsyncIterator["FakeKeeper"]:
        """Serve inside the block; what was unfinished is forgotten."""
        self._unfinished.clear()
        async with anyio.create_task_group() as tasks:
            answers = socket("egress-memory").answers
            tasks.start_soon(Server("fake-memoryd", answers, self._desk).serve, listen(self.path))
            yield self
            tasks.cancel_scope.cancel()

    async def _desk(self, request: Any, connection: Connection) -> msgspec.Struct:
        self.asked += 1
        if self.faults:
            raise Fault(self.faults.pop(0))
        match request:
            case KeepBegin():
                handle = f"{self.asked}"
                self._unfinished[handle] = Kept(request, [], {})
                return KeepBegun(handle=handle)
            case KeepPiece(handle=handle):
                bodies = self._found(handle).bodies
                assert len(bodies.get(request.part, b"")) == request.offset
                bodies[request.part] = bodies.get(request.part, b"") + request.data
            case KeepEnd(handle=handle):
                self._take(self._found(handle)._replace(parts=request.parts))
            case KeepWhole():
                names = [part.name for part in request.parts]
                self._take(Kept(request.begun, request.parts, dict(zip(names, request.bodies, strict=True))))
            case _:
                raise AssertionError(request)
        return Ok()

    def _take(self, kept: Kept) -> None:
        for part in kept.parts:
            body = kept.bodies.setdefault(part.name, b"")
            assert (len(body), hashlib.sha256(body).hexdigest()) == (part.size_bytes, part.sha256)
        self.items.setdefault(kept.begun.call, kept)
        self._taken.set()

    def _found(self, handle: str) -> Kept:
        if handle not in self._unfinished:
            raise Fault("kept-refused")
        return self._unfinished[handle]
