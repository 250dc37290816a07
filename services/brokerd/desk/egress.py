"""egressd's socket: may these bytes leave, now? No session's turn is waited for, and no daemon is called."""

from brokerd import told
from brokerd.audit import Audit
from brokerd.decide import Decision, EgressDecider
from brokerd.facts import strictest
from brokerd.sessions import Sessions
from proto.labels import Label
from proto.messages.broker import EgressAsk, EgressDecision
from proto.role import trace
from proto.role.serve import Connection


class EgressDesk:
    """Answers egressd."""

    def __init__(self, sessions: Sessions, decider: EgressDecider, audit: Audit) -> None:
        self._sessions = sessions
        self._decider = decider
        self._audit = audit

    async def __call__(self, request: EgressAsk, connection: Connection) -> EgressDecision:
        """The decision under the label of the moment in which it is written down."""
        began_ns = trace.now_ns()
        decision = await self._decide(request)
        while decision.label != self._label(request.session):
            decision = await self._decide(request)
        names = {
            "session": request.session,
            "call": request.call,
            "destination": request.destination,
            "method": request.method[:16],
        }
        self._audit.decision(names, decision, None)
        more = told.of_egress(request.session, request.call, request.destination)
        told.decided(began_ns, f"egress.{request.what}", self._sessions.find(request.session), decision, more)
        return EgressDecision(
            allow=decision.verdict == "allow",
            reasons=list(decision.reasons),
            message=decision.sentence,
            class_=decision.label.class_,
            untrusted=decision.label.untrusted,
            domain=self._domain(request.session),
        )

    async def _decide(self, request: EgressAsk) -> Decision:
        session = self._sessions.find(request.session)
        return await self._decider.decide(request, session, session.label if session else strictest())

    def _label(self, session: str) -> Label:
        found = self._sessions.find(session)
        return found.label if found else strictest()

    def _domain(self, session: str) -> str | None:
        found = self._sessions.find(session)
        return found.domain if found else None
