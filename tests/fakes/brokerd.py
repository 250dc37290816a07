"""brokerd as loopd sees it: sessions whose labels only rise, tool calls with answers that a test sets, approvals.

Features: `tools` maps a tool to what answers it (a `Says`, or a function of the request); any other is refused. A `Says`
may wait for the owner (`asks`) or for `release` (`holds`). `lost` sessions are refused with session-state-lost, `fault`
faults every call. An approval says that it lapses at `expires`; a call that is asked again waits for the same one.
`breaks` is how many calls are cut off once the owner is asked, `cuts` how many before. Every request is in `requests`.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from proto.faults import Fault
from proto.ids import new_approval_id
from proto.labels import PRIVATE, Label, join
from proto.messages.broker import (
    ApprovalAnswer,
    ApprovalIgnored,
    ApprovalWanted,
    SessionClose,
    SessionLabel,
    SessionOpen,
    SessionState,
    ToolRequest,
    ToolResponse,
)
from proto.messages.wire import Ok
from proto.reasons import REASONS
from proto.sockets import socket
from tests.fakes.frames import FramedFake, Send


class Says(NamedTuple):
    """An answer to a call."""

    text: str
    ok: bool = True
    label: Label = PRIVATE
    asks: bool = False
    holds: bool = False


Answer = Says | Callable[[ToolRequest], Says]
REFUSED = Says(REASONS["no-grant"], ok=False)


class FakeBrokerd(FramedFake):
    """The daemon; its sessions outlive a loopd that is killed."""

    def __init__(self, home: Path, tools: dict[str, Answer] | None = None) -> None:
        row = socket("loop-broker")
        super().__init__(row.at(home), row.requests)
        self.tools = tools or {}
        self.labels: dict[str, Label] = {}
        self.lost: set[str] = set()
        self.fault: str | None = None
        self.expires = "2026-09-24T22:00:00Z"
        self.more = ""
        """What stands behind the question of an approval."""
        self.requests: list[Any] = []
        self.breaks = 0
        self.cuts = 0
        self._asked_for: dict[tuple[str, str], str] = {}
        self._approvals: dict[str, tuple[threading.Event, list[bool]]] = {}
        self._released = threading.Event()

    def answer(self, request: Any, send: Send) -> msgspec.Struct:
        """What brokerd would say."""
        self.requests.append(request)
        match request:
            case SessionOpen():
                return self._open(request)
            case SessionLabel() | SessionClose():
                return self._state(request)
            case ToolRequest():
                return self._tool(request, send)
            case ApprovalAnswer():
                return self._approve(request)
            case ApprovalIgnored():
                return Ok()
            case _:
                raise AssertionError(request)

    def release(self) -> None:
        """Let the calls that are held go on, those to come too."""
        self._released.set()

    def of(self, kind: type[msgspec.Struct]) -> list[Any]:
        """The requests of a kind."""
        return [request for request in self.requests if isinstance(request, kind)]

    def wait_for(self, kind: type[msgspec.Struct], count: int = 1) -> None:
        """Wait until so many requests of a kind have come."""
        deadline = time.monotonic() + 10
        while len(self.of(kind)) < count:
            assert time.monotonic() < deadline, f"no {kind.__name__} came"
            time.sleep(0.01)

    def _open(self, request: SessionOpen) -> SessionState:
        if request.new and request.session in self.labels:
            raise Fault("session-exists")
        if not request.new and (request.session not in self.labels or request.session in self.lost):
            raise Fault("session-state-lost")
        label = self.labels.setdefault(request.session, Label(request.class_, request.untrusted))
        return SessionState(session=request.session, class_=label.class_, untrusted=label.untrusted)

    def _state(self, request: SessionLabel | SessionClose) -> SessionState:
        if request.session not in self.labels or request.session in self.lost:
            raise Fault("session-not-open")
        label = self.labels[request.session]
        return SessionState(session=request.session, class_=label.class_, untrusted=label.untrusted)

    def _tool(self, request: ToolRequest, send: Send) -> ToolResponse:
        if self.fault is not None:
            raise Fault(self.fault)
        if request.session not in self.labels:
            raise Fault("session-not-open")
        if self.cuts:
            self.cuts -= 1
            raise ConnectionError
        answer = self.tools.get(request.tool, REFUSED)
        says = answer(request) if callable(answer) else answer
        if says.asks and not self._asked(request, send):
            says = Says(REASONS["denied"], ok=False)
        if says.holds:
            self._released.wait(30)
        label = says.label if says.ok else PRIVATE
        self.labels[request.session] = join(self.labels[request.session], label)
        return ToolResponse(
            call=request.call, ok=says.ok, text=says.text, class_=label.class_, untrusted=label.untrusted
        )

    def _asked(self, request: ToolRequest, send: Send) -> bool:
        approval = self._asked_for.setdefault((request.session, request.call), new_approval_id())
        answered, allowed = self._approvals.setdefault(approval, (threading.Event(), []))
        send(ApprovalWanted(approval=approval, text=f"run {request.tool}?{self.more}", expires=self.expires))
        if self.breaks:
            self.breaks -= 1
            raise ConnectionError
        answered.wait(30)
        return allowed == [True]

    def _approve(self, answer: ApprovalAnswer) -> Ok:
        if answer.approval not in self._approvals:
            raise Fault("approval-unknown")
        answered, allowed = self._approvals.pop(answer.approval)
        allowed.append(answer.allow)
        answered.set()
        return Ok()
