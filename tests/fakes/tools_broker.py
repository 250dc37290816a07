"""brokerd as /mcp sees it: which tools a session has, and calls with answers that a test sets.

Features: `named` are the tools of every session; `says` answers each call; with `asks` the owner is asked first, and
answers once `release` is called; `left` is how many left before; `fault` refuses everything; `hangs_up` closes without
an answer. Every request is in `requests`.
"""

import threading
from pathlib import Path
from typing import Any, Final

import msgspec

from proto.faults import Fault
from proto.labels import DataClass
from proto.messages.broker import ApprovalWanted, ToolRequest, ToolResponse, ToolsList, ToolsListReply
from proto.sockets import socket
from tests.fakes.frames import FramedFake, Send

ROW: Final = socket("egress-broker", "tools.sock")


class FakeToolsBroker(FramedFake):
    """The daemon."""

    def __init__(self, home: Path) -> None:
        super().__init__(ROW.at(home), ROW.requests)
        self.named = ["recall", "memory"]
        self.text = "done"
        self.ok = True
        self.asks = False
        self.expires = "2126-01-01T00:00:00Z"
        self.fault: str | None = None
        self.hangs_up = False
        self.left = 0
        self.requests: list[Any] = []
        self._released = threading.Event()

    def answer(self, request: Any, send: Send) -> msgspec.Struct:
        """What brokerd would say."""
        self.requests.append(request)
        if self.hangs_up:
            raise ConnectionError
        if self.fault is not None:
            raise Fault(self.fault)
        match request:
            case ToolsList():
                return ToolsListReply(tools=self.named)
            case ToolRequest():
                if self.asks:
                    self._ask(send)
                return ToolResponse(
                    call=request.call, ok=self.ok, text=self.text, class_=DataClass.PRIVATE, untrusted=True
                )
            case _:
                raise AssertionError(request)

    def _ask(self, send: Send) -> None:
        wanted = ApprovalWanted(approval="ap-0123456789abcdef", text="?", expires=self.expires)
        while not self._released.wait(0.05):
            try:
                send(wanted)
            except OSError:
                self.left += 1
                raise

    def release(self) -> None:
        """Let the owner answer."""
        self._released.set()
