"""memoryd as loopd sees it: the memory block, and a list of the sessions whose logs have new records."""

import threading
from pathlib import Path
from typing import Any

import msgspec

from proto.faults import Fault
from proto.messages.memory import MemoryBlock, MemoryBlockReply, SessionUpdated
from proto.messages.wire import Ok
from proto.sockets import socket
from tests.fakes.frames import FramedFake, Send

BLOCK = "# soul.md\nYou are calm.\n\n# memory.md (0 of 2,200 characters)\n(empty)\n\n# user.md (0 of 1,375 characters)\n(empty)"


class FakeMemory(FramedFake):
    """The daemon. `block` is served, and may be changed; `fault` is a code with which it refuses.

    While `running` is not set, it takes word of new records and answers nothing; `came` holds the words that came.
    """

    def __init__(self, home: Path, block: str = BLOCK) -> None:
        row = socket("loop-memory")
        super().__init__(row.at(home), row.requests)
        self.block = block
        self.fault: Fault | None = None
        self.updated: list[str] = []
        self.came: list[str] = []
        self.running = threading.Event()
        self.running.set()

    def answer(self, request: Any, send: Send) -> msgspec.Struct:
        """What memoryd would say."""
        if self.fault is not None:
            raise self.fault
        match request:
            case MemoryBlock():
                return MemoryBlockReply(text=self.block)
            case SessionUpdated():
                self.came.append(request.session)
                self.running.wait(30)
                self.updated.append(request.session)
                return Ok()
            case _:
                raise AssertionError(request)
