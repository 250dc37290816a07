"""loopd's socket: sessions, their labels, tool calls, and the approvals of its own sessions."""

from typing import assert_never

import msgspec

from brokerd.approvals import Approvals
from brokerd.audit import Audit
from brokerd.calls import Calls
from brokerd.sessions import Session, Sessions
from brokerd.taint import Taint
from proto.faults import Fault
from proto.labels import Label
from proto.messages.broker import (
    ApprovalAnswer,
    ApprovalIgnored,
    SessionClose,
    SessionLabel,
    SessionOpen,
    SessionState,
    ToolRequest,
)
from proto.messages.wire import Ok
from proto.role.clock import Clock, stamp
from proto.role.serve import Connection

VIA = "loop-broker"
"""The name of this socket: the sessions that are opened here are loopd's."""

Request = SessionOpen | SessionLabel | ToolRequest | ApprovalAnswer | ApprovalIgnored | SessionClose


class LoopDesk:
    """Answers loopd."""

    def __init__(
        self, sessions: Sessions, taint: Taint, calls: Calls, approvals: Approvals, audit: Audit, clock: Clock
    ) -> None:
        self._sessions = sessions
        self._taint = taint
        self._calls = calls
        self._approvals = approvals
        self._audit = audit
        self._clock = clock

    async def __call__(self, request: Request, connection: Connection) -> msgspec.Struct:
        """The last frame of the answer."""
        match request:
            case ToolRequest():
                return await self._calls.answer(request, connection)
            case SessionOpen():
                return await self._open(request)
            case SessionLabel():
                return await self._label(request)
            case SessionClose():
                return await self._close(request)
            case ApprovalAnswer():
                return self._answer(request)
            case ApprovalIgnored():
                return self._ignored(request)
            case _:
                assert_never(request)

    async def _open(self, request: SessionOpen) -> SessionState:
        if request.new:
            session = self._sessions.begin(request, VIA, stamp(self._clock()))
            self._taint.began(session.session, session.label)
            self._audit.session("open", session.session, session.label, destination=session.destination, via=VIA)
            return _state(session.session, session.label)
        given = Label(class_=request.class_, untrusted=request.untrusted)
        if self._sessions.find(request.session) is not None:
            await self._taint.join(request.session, given, "session_open")
        session = self._sessions.resume(request, VIA)
        self._audit.session("resume", session.session, session.label, destination=session.destination, via=VIA)
        return _state(session.session, session.label)

    async def _label(self, request: SessionLabel) -> SessionState:
        self._sessions.find_open(request.session)
        given = Label(class_=request.class_, untrusted=request.untrusted)
        return _state(request.session, await self._taint.join(request.session, given, "session_label"))

    async def _close(self, request: SessionClose) -> SessionState:
        """The final label: what is under way is waited for, what waits for the owner is void."""
        self._sessions.find_open(request.session)
        async with self._sessions.turn(request.session):
            self._sessions.find_open(request.session)
            self._approvals.void(request.session, "session-not-open")
            session: Session = self._sessions.close(request.session)
            self._audit.session("close", session.session, session.label)
        return _state(session.session, session.label)

    def _answer(self, request: ApprovalAnswer) -> Ok:
        waiting = self._approvals.find(request.approval)
        session = self._sessions.find(waiting.approval.session)
        if session is None or session.via != VIA:
            raise Fault("approval-unknown")
        self._approvals.answer(request.approval, allow=request.allow, by=request.by, via=VIA)
        return Ok()

    def _ignored(self, request: ApprovalIgnored) -> Ok:
        """Put an answer that did not count into the audit log."""
        session = self._sessions.find(request.session)
        if session is None or session.via != VIA:
            raise Fault("session-not-open")
        named = {"approval": request.approval, "session": request.session}
        self._audit.approval("ignored", named, by=request.by, why=request.why, via=VIA)
        return Ok()


def _state(session: str, label: Label) -> SessionState:
    return SessionState(session=session, class_=label.class_, untrusted=label.untrusted)
