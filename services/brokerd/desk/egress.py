"""egressd's socket: may these bytes leave, now? No session's turn is waited for, and no daemon is called."""

from typing import Any, Final, NamedTuple

import anyio
import msgspec

from brokerd import told
from brokerd.audit import Audit
from brokerd.decide import Decision, EgressDecider
from brokerd.facts import label_of_nobody
from brokerd.policy.inforce import NO_POLICY
from brokerd.sessions import Session, Sessions
from brokerd.taint import Taint
from proto.escape import clip
from proto.faults import Fault
from proto.labels import Label
from proto.messages.broker import EgressAsk, EgressAsks, EgressDecision, EgressDecisions
from proto.messages.wire import Error, error_of
from proto.role import trace
from proto.role.log import logger
from proto.role.serve import Connection

_LONGEST_CHARS: Final = 120
_MOST_TOOLS: Final = 20
_DECIDING_S: Final = 8.0
"""For the questions of one frame: egressd waits for ten seconds (`relay.ask_s`). Where a policy that hangs on some has
used it up, what needs the policy after that is denied (`policy-invalid`); answers that are kept are given."""


class EgressDesk:
    """Answers egressd."""

    def __init__(self, sessions: Sessions, decider: EgressDecider, audit: Audit, taint: Taint) -> None:
        self._sessions = sessions
        self._decider = decider
        self._audit = audit
        self._taint = taint

    async def __call__(self, request: EgressAsks, connection: Connection) -> EgressDecisions:
        """The decisions, each under the label of the moment in which it is written down; all are on disk by then."""
        until_s = anyio.current_time() + _DECIDING_S
        answers = _Answers(self._sessions, self._audit)
        for ask in request.asks:
            began_ns = trace.now_ns()
            answers.add(ask, began_ns, await self._decision(ask, answers, until_s))
        answers.write_down()
        await self._audit.on_disk()
        return EgressDecisions(answers=answers.given)

    async def _decision(self, ask: EgressAsk, answers: "_Answers", until_s: float) -> Decision | Fault:
        """The decision on one question; what is at fault with it is no fault of the others."""
        try:
            decision = self._decider.at_once(ask, self._find(ask), self._decided_under(ask))
            if decision is None:
                answers.write_down()
                decision = await self._waited_for(ask, until_s)
            if decision.verdict != "allow":
                return msgspec.structs.replace(decision, label=self._label(ask))
            if ask.hosted_tools and ask.session is not None:
                answers.write_down()
                self._taint.distrust(ask.session, "hosted-tool")
        except Fault as fault:
            return fault
        except Exception:  # noqa: BLE001  (whatever a question does, the next one is answered)
            logger().exception("request-failed", call=ask.call)
            return Fault("internal")
        return decision

    async def _waited_for(self, ask: EgressAsk, until_s: float) -> Decision:
        """The decision under the label that the session has when the policy has answered."""
        decision = await self._decide(ask, until_s)
        while decision.label != self._decided_under(ask):
            decision = await self._decide(ask, until_s)
        return decision

    async def _decide(self, ask: EgressAsk, until_s: float) -> Decision:
        label = self._decided_under(ask)
        with anyio.CancelScope(deadline=until_s):
            return await self._decider.decide(ask, self._find(ask), label)
        return Decision(verdict="deny", reasons=("policy-invalid",), label=label, policy=NO_POLICY)

    def _decided_under(self, ask: EgressAsk) -> Label:
        """The label that the session has, or would have: what a tool of the provider reads is untrusted."""
        label = self._label(ask)
        return msgspec.structs.replace(label, untrusted=True) if ask.hosted_tools else label

    def _label(self, ask: EgressAsk) -> Label:
        found = self._find(ask)
        return found.label if found else label_of_nobody(ask)

    def _find(self, ask: EgressAsk) -> Session | None:
        return None if ask.session is None else self._sessions.find(ask.session)


class _Decided(NamedTuple):
    """A question, when it was taken up (Unix nanoseconds), and what came of it."""

    ask: EgressAsk
    began_ns: int
    decision: Decision | Fault

    def failed(self) -> "_Decided":
        """The same, where the decision could not be written down."""
        return self._replace(decision=Fault("internal"))


class _Answers:
    """The answers to the questions of a frame. Decisions go into the audit log together: ten cost hardly more than one.

    They wait for it only while nobody else has a turn, so that the label that they were made under is the session's as
    they are written down: `write_down` comes before each wait, and before a label rises.
    """

    def __init__(self, sessions: Sessions, audit: Audit) -> None:
        self._sessions = sessions
        self._audit = audit
        self._decided: list[_Decided] = []
        self.given: list[EgressDecision | Error] = []

    def add(self, ask: EgressAsk, began_ns: int, decision: Decision | Fault) -> None:
        """What came of the next question."""
        self._decided.append(_Decided(ask, began_ns, decision))

    def write_down(self) -> None:
        """Write down every decision that is not yet, and give the answers; where that fails, each is a fault."""
        decided, self._decided = self._decided, []
        lines = [(_asked(one.ask), one.decision) for one in decided if isinstance(one.decision, Decision)]
        try:
            if lines:
                self._audit.leaving(*lines)
        except Exception:  # noqa: BLE001  (the next questions are answered)
            logger().exception("request-failed", calls=[one.ask.call for one in decided])
            decided = [one if isinstance(one.decision, Fault) else one.failed() for one in decided]
        self.given += map(self._answer, decided)

    def _answer(self, decided: _Decided) -> EgressDecision | Error:
        ask, began_ns, decision = decided
        if isinstance(decision, Fault):
            return error_of(decision)
        session = None if ask.session is None else self._sessions.find(ask.session)
        trace.follow(ask.trace)
        more = told.of_egress(ask.session, ask.call, ask.destination)
        told.decided(began_ns, f"egress.{ask.what}", session, decision, more)
        return EgressDecision(
            allow=decision.verdict == "allow",
            reasons=list(decision.reasons),
            message=decision.sentence,
            class_=decision.label.class_,
            untrusted=decision.label.untrusted,
            domain=session.domain if session else None,
        )


def _asked(ask: EgressAsk) -> dict[str, Any]:
    """What the audit log says of a question."""
    named: dict[str, Any] = {
        "session": ask.session,
        "call": ask.call,
        "destination": ask.destination,
        "method": ask.method[:16],
        "what": ask.what,
    }
    if ask.what == "post":
        named |= {"channel": ask.channel, "direct": ask.direct}
    if ask.what == "tunnel":
        named["host"] = clip(ask.path, _LONGEST_CHARS)
    if ask.model:
        named["model"] = clip(ask.model, _LONGEST_CHARS)
    tools = [clip(tool, _LONGEST_CHARS) for tool in ask.hosted_tools[:_MOST_TOOLS]]
    spending = {"spending": msgspec.to_builtins(ask.spending)} if ask.spending else {}
    return {**named, **({"hosted_tools": tools} if tools else {}), **spending}
