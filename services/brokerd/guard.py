"""What no policy may make laxer: the built-in checks again, in Python, over the same facts.

A root's own module may stand in the place of a built-in one, and can so ask more often or deny more; what these checks
deny stays denied, and what they ask the owner is asked. A property test holds them against the built-in Rego.
"""

from typing import Any

from brokerd import facts
from brokerd.facts import RUNTIMES, Facts, Question
from brokerd.grants.shelf import GrantSet
from brokerd.policy.verdict import INVALID, Verdict
from brokerd.sessions import Session
from proto.labels import Label
from proto.messages.broker import EgressAsk
from proto.rules import Rules
from proto.tools import TOOLS


def tool_denials(found: Facts, grants: GrantSet, question: Question) -> tuple[str, ...]:
    """The reasons for which a call is denied whatever the policy says; none when it may be allowed."""
    session = question.session
    first = {
        "session-not-open": session is not None and session.open,
        "grants-invalid": not grants.problems,
        "tool-unknown": question.tool in TOOLS,
    }
    if failed := _failed(first):
        return failed
    if failed := _failed(
        {"arguments": found.problem is None, "runtime-absent": TOOLS[question.tool].runtime in RUNTIMES}
    ):
        return failed
    if found.grant is None:
        return ("no-grant",)
    return _failed(
        {
            "grant-denies": found.grant.says.mode != "deny",
            "scheme": found.fit.scheme,
            "host": found.fit.host,
            "path": found.fit.path,
            "pattern": found.fit.pattern,
            "taint": question.label.class_.rank <= found.grant.says.max_taint.rank,
        }
    )


def tool_questions(found: Facts, question: Question) -> tuple[str, ...]:
    """The reasons for which the owner is asked whatever the policy says, unless he has allowed exactly this."""
    if question.approved or found.grant is None:
        return ()
    stranger = question.label.untrusted and found.subject.url is not None and not found.fit.host_exact
    return _failed({"asks": found.grant.says.mode == "auto", "untrusted-host": not stranger})


def keep_tool(verdict: Verdict, found: Facts, grants: GrantSet, question: Question) -> Verdict:
    """The policy's verdict on a call, or a stricter one."""
    if verdict.verdict == "deny":
        return verdict
    if denials := tool_denials(found, grants, question):
        return Verdict("deny", denials)
    questions = tool_questions(found, question)
    return Verdict("ask", questions) if questions and verdict.verdict == "allow" else verdict


def keep_egress(
    verdict: Verdict, ask: EgressAsk, session: Session | None, label: Label, rules: Rules | None
) -> Verdict:
    """The policy's verdict on bytes that would leave, or a denial. Nobody is asked here: a question is a mistake."""
    if verdict.verdict == "deny":
        return verdict
    destination = rules.destinations.get(ask.destination) if rules else None
    unasked = destination is not None and facts.is_of_no_session(ask, destination)
    if failed := _failed(
        {"session-not-open": unasked or (session is not None and session.open), "rules-invalid": rules is not None}
    ):
        return Verdict("deny", failed)
    if destination is None or not facts.answers(ask, destination):
        return Verdict("deny", ("destination",))
    limits, spent = facts.limits(rules.spend.get(ask.destination) if rules else None), facts.spent(ask)
    if failed := _failed(
        {
            "ceiling": label.class_.rank <= destination.ceiling.rank,
            "channel-ceiling": label.class_.rank <= facts.channel_rank(ask, rules),
            "tunnel-host": facts.names_tunnel(ask, destination),
            "hosted-tool": facts.names_hosted_tools(ask, destination),
            "unpriced": ask.what != "call" or facts.is_priced(limits, spent),
            "spend": _is_within(ask, limits, spent),
        }
    ):
        return Verdict("deny", failed)
    return INVALID if verdict.verdict == "ask" else verdict


def _is_within(ask: EgressAsk, limits: dict[str, int], spent: dict[str, Any]) -> bool:
    """Whether no limit of spend is passed. What a tunnel spends is not seen, so that only a limit of none holds there.

    Money that is not known is another refusal, and plans cost none.
    """
    match ask.what:
        case "read" | "post":
            return True
        case "tunnel":
            return all(limits[name] != 0 for name in facts.TOKENS)
        case "call":
            kept = facts.within(limits, spent)
            counted = facts.TOKENS if not spent["metered"] else (*facts.TOKENS, *facts.MONEY)
            return all(kept[name] for name in counted)


def _failed(checks: dict[str, bool]) -> tuple[str, ...]:
    return tuple(sorted(reason for reason, passed in checks.items() if not passed))
