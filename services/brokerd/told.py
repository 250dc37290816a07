"""What brokerd tells of each decision: a span `policy.decision`, beside the line of the audit log.

No argument of a call is in it: the audit log has those, and does not leave the box.
"""

from collections.abc import Mapping
from typing import Final

from brokerd.decide import Decision
from brokerd.sessions import Session
from proto.role import trace

NAME: Final = "policy.decision"


def decided(began_ns: int, action: str, session: Session | None, decision: Decision, more: Mapping[str, str]) -> None:
    """A decision was made on an action: a tool's name, or `egress.` and what would leave.

    Of the policy's booleans, `allow` and `ask`, `review` is the second; `admit` says that no person is waited for.
    """
    trace.tell(
        NAME,
        began_ns,
        {
            "boxmaker.decision.action": action,
            "boxmaker.decision.principal": session.principal if session else None,
            "boxmaker.decision.principal_class": session.principal_class.value if session else None,
            "boxmaker.decision.domain": session.domain if session else None,
            "boxmaker.decision.allow": decision.verdict != "deny",
            "boxmaker.decision.admit": decision.verdict == "allow",
            "boxmaker.decision.review": decision.verdict == "ask",
            "boxmaker.decision.reason": ", ".join(decision.reasons),
            "boxmaker.decision.policy": decision.policy,
            "boxmaker.decision.grant": decision.grant.id if decision.grant else None,
            "boxmaker.class": decision.label.class_.value,
            "boxmaker.untrusted": decision.label.untrusted,
            **more,
        },
    )


def of_tool(session: str, call: str, tool: str) -> Mapping[str, str]:
    """What a decision on a tool call says more, with OpenTelemetry's GenAI words beside ours."""
    return {
        "boxmaker.session": session,
        "gen_ai.conversation.id": session,
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": call,
    }


def of_egress(session: str | None, call: str, destination: str) -> Mapping[str, str]:
    """What a decision on bytes that would leave says more."""
    own = {} if session is None else {"boxmaker.session": session, "gen_ai.conversation.id": session}
    return {**own, "boxmaker.call": call, "boxmaker.destination": destination}
