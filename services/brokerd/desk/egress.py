"""egressd's socket: may these bytes leave, now? No session's turn is waited for, and no daemon is called."""

from typing import Any, Final

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
        answers = [await self._answer(ask, until_s) for ask in request.asks]
        await self._audit.on_disk()
        return EgressDecisions(answers=answers)

    async def _answer(self, request: EgressAsk, until_s: float) -> EgressDecision | Error:
        """The answer to one question; what is at fault with it is no fault of the others."""
        trace.follow(request.trace)
        try:
            return await self._decision(request, until_s)
        except Fault as fault:
            return error_of(fault)
        except Exception:  # noqa: BLE001  (whatever a question does, the next one is answered)
            logger().exception("request-failed", call=request.call)
            return error_of(Fault("internal"))

    async def _decision(self, request: EgressAsk, until_s: float) -> EgressDecision:
        began_ns = trace.now_ns()
        decision = await self._decide(request, until_s)
        while decision.label != self._decided_under(request):
            decision = await self._decide(request, until_s)
        if decision.verdict != "allow":
            decision = msgspec.structs.replace(decision, label=self._label(request))
        elif request.hosted_tools and request.session is not None:
            self._taint.distrust(request.session, "hosted-tool")
        self._audit.leaving(_asked(request), decision)
        more = told.of_egress(request.session, request.call, request.destination)
        told.decided(began_ns, f"egress.{request.what}", self._find(request), decision, more)
        return EgressDecision(
            allow=decision.verdict == "allow",
            reasons=list(decision.reasons),
            message=decision.sentence,
            class_=decision.label.class_,
            untrusted=decision.label.untrusted,
            domain=found.domain if (found := self._find(request)) else None,
        )

    async def _decide(self, request: EgressAsk, until_s: float) -> Decision:
        label = self._decided_under(request)
        with anyio.CancelScope(deadline=until_s):
            return await self._decider.decide(request, self._find(request), label)
        return Decision(verdict="deny", reasons=("policy-invalid",), label=label, policy=NO_POLICY)

    def _decided_under(self, request: EgressAsk) -> Label:
        """The label that the session has, or would have: what a tool of the provider reads is untrusted."""
        label = self._label(request)
        return msgspec.structs.replace(label, untrusted=True) if request.hosted_tools else label

    def _label(self, request: EgressAsk) -> Label:
        found = self._find(request)
        return found.label if found else label_of_nobody(request)

    def _find(self, request: EgressAsk) -> Session | None:
        return None if request.session is None else self._sessions.find(request.session)


def _asked(request: EgressAsk) -> dict[str, Any]:
    """What the audit log says of a request."""
    named: dict[str, Any] = {
        "session": request.session,
        "call": request.call,
        "destination": request.destination,
        "method": request.method[:16],
        "what": request.what,
    }
    if request.what == "post":
        named |= {"channel": request.channel, "direct": request.direct}
    if request.what == "tunnel":
        named["host"] = clip(request.path, _LONGEST_CHARS)
    if request.model:
        named["model"] = clip(request.model, _LONGEST_CHARS)
    tools = [clip(tool, _LONGEST_CHARS) for tool in request.hosted_tools[:_MOST_TOOLS]]
    spending = {"spending": msgspec.to_builtins(request.spending)} if request.spending else {}
    return {**named, **({"hosted_tools": tools} if tools else {}), **spending}
