"""The owner's socket: approvals, grants, policy, sessions and the audit log."""

import json
from pathlib import Path
from typing import Final, assert_never

import anyio
import msgspec

from brokerd.approvals import Approvals as Waiting
from brokerd.audit import FILE, TEXT_FIELDS, Audit
from brokerd.decide import Decider
from brokerd.facts import Question, strictest
from brokerd.sessions import Session, Sessions
from proto.labels import Label
from proto.messages.broker import (
    ApprovalAnswer,
    Approvals,
    ApprovalsReply,
    Decisions,
    DecisionsReply,
    Grants,
    GrantsReply,
    PolicyEval,
    PolicyEvalReply,
    PolicyShow,
    SessionLabels,
    SessionLabelsReply,
    SessionReopen,
    SessionState,
)
from proto.messages.wire import Backup, ChainedJournal, Ok, Verify, VerifyReply
from proto.role.backup import send, take
from proto.role.clock import Clock, stamp
from proto.role.serve import Connection

_DECISIONS: Final = 20
_MOST_DECISIONS: Final = 10_000
_MOST_SESSIONS: Final = 1000
_LONGEST_FACTS_CHARS: Final = 200_000
VIA: Final = "owner-broker"
_STATE: Final = "state/brokerd"
_JOURNALS: Final = (ChainedJournal(path=f"audit/{FILE}", heads=f"{_STATE}/heads", text_fields=list(TEXT_FIELDS)),)
_AT_ONE_MOMENT: Final = (f"audit/{FILE}", f"{_STATE}/heads", f"{_STATE}/heads.proven", f"{_STATE}/approvals/")
"""An answered approval and the line of the call that used it must not part. Labels are read later: they only rise."""

Request = (
    Approvals
    | ApprovalAnswer
    | Grants
    | PolicyShow
    | PolicyEval
    | SessionLabels
    | SessionReopen
    | Decisions
    | Verify
    | Backup
)


class OwnerDesk:
    """Answers bxctl."""

    def __init__(
        self,
        sessions: Sessions,
        approvals: Waiting,
        decider: Decider,
        audit: Audit,
        clock: Clock,
        home: Path,
    ) -> None:
        self._sessions = sessions
        self._approvals = approvals
        self._decider = decider
        self._audit = audit
        self._clock = clock
        self._home = home

    async def __call__(self, request: Request, connection: Connection) -> msgspec.Struct:
        """The answer."""
        match request:
            case Approvals():
                return ApprovalsReply(approvals=self._approvals.waiting())
            case ApprovalAnswer():
                self._approvals.answer(request.approval, allow=request.allow, by=request.by, via=VIA)
                return Ok()
            case Grants():
                return self._grants()
            case PolicyShow():
                return await self._decider.policy.show()
            case PolicyEval():
                return await self._evaluate(request)
            case SessionLabels():
                rows = [session.row() for session in self._sessions.all()[:_MOST_SESSIONS]]
                return SessionLabelsReply(sessions=rows)
            case SessionReopen():
                return self._reopen(request)
            case Decisions():
                count = min(_DECISIONS if request.last is None else request.last, _MOST_DECISIONS)
                lines = await anyio.to_thread.run_sync(self._audit.last, max(count, 0), request.session)
                return DecisionsReply(decisions=lines)
            case Verify():
                return VerifyReply(journals=await anyio.to_thread.run_sync(self._audit.verify))
            case Backup():
                # No act is halfway here: brokerd works in this thread, and waits for nothing between the two.
                return await send(connection, self._home, "brokerd", take(self._home, *_AT_ONE_MOMENT), _JOURNALS)
            case _:
                assert_never(request)

    def _grants(self) -> GrantsReply:
        grants = self._decider.shelf.now()
        return GrantsReply(grants=[grant.row() for grant in grants.shown()], problems=list(grants.problems))

    async def _evaluate(self, request: PolicyEval) -> PolicyEvalReply:
        """What would be decided; nothing runs, and nothing is written down."""
        label = Label(class_=request.class_, untrusted=request.untrusted)
        session = self._sessions.find(request.session) if request.session else _made_up(label)
        question = Question(
            session=session, label=label if session else strictest(), tool=request.tool, arguments=request.arguments
        )
        decision = await self._decider.decide(question)
        told = decision.facts.term if decision.facts else {}
        term = json.dumps(told, ensure_ascii=False, indent=2)
        return PolicyEvalReply(
            verdict=decision.verdict,
            reasons=list(decision.reasons),
            grant=decision.grant.id if decision.grant else None,
            facts=term if len(term) <= _LONGEST_FACTS_CHARS else json.dumps({**told, "arguments": {}}, indent=2),
        )

    def _reopen(self, request: SessionReopen) -> SessionState:
        session = self._sessions.reopen(request.session, stamp(self._clock()))
        self._audit.session("reopen", session.session, session.label, via=VIA)
        return SessionState(session=session.session, class_=session.class_, untrusted=session.untrusted)


def _made_up(label: Label) -> Session:
    """The owner's own chat, as loopd would open it."""
    return Session(
        session="chat-made-up",
        via=VIA,
        session_kind="chat",
        principal="owner",
        principal_class=strictest().class_,
        domain="dom-me",
        destination="local",
        auth="none",
        tree=None,
        task=None,
        class_=label.class_,
        untrusted=label.untrusted,
        open=True,
        opened="",
    )
