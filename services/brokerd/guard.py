"""What no policy may make laxer: the built-in checks again, in Python, over the same facts.

A root's own module may stand in the place of a built-in one, and can so ask more often or deny more; what these checks
deny stays denied, and what they ask the owner is asked. A property test holds them against the built-in Rego.
"""

from collections.abc import Mapping
from typing import Any

from brokerd import facts
from brokerd.facts import RUNTIMES, Facts, Question
from brokerd.grants.shelf import GrantSet
from brokerd.policy.verdict import INVALID, Verdict
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


def _egress_denials(term: Mapping[str, Any]) -> tuple[str, ...]:
    """The reasons for which bytes may not leave whatever the policy says; `term` is its input (`facts.of_egress`)."""
    told, session, what = term["facts"], term["session"], term["what"]
    unasked = what == "read" and told["of_no_session"]
    if failed := _failed({"session-not-open": unasked or session["open"], "rules-invalid": told["rules_valid"]}):
        return failed
    if not told["destination_known"]:
        return ("destination",)
    return _failed(
        {
            "ceiling": session["class_rank"] <= told["ceiling_rank"],
            "channel-ceiling": session["class_rank"] <= told["channel_rank"],
            "tunnel-host": told["tunnel_named"],
            "hosted-tool": told["hosted_tools_named"],
            "unpriced": what != "call" or told["priced"],
            "spend": _is_within(what, told),
        }
    )


def keep_egress(verdict: Verdict, term: Mapping[str, Any]) -> Verdict:
    """The policy's verdict on bytes that would leave, or a denial. Nobody is asked here: a question is a mistake."""
    if verdict.verdict == "deny":
        return verdict
    if denials := _egress_denials(term):
        return Verdict("deny", denials)
    return INVALID if verdict.verdict == "ask" else verdict


def _is_within(what: str, told: Mapping[str, Any]) -> bool:
    """Whether no limit of spend is passed. What a tunnel spends is not seen, so that only a limit of none holds there.

    Money that is not known is another refusal, and plans cost none.
    """
    if what in ("read", "post"):
        return True
    if what == "tunnel":
        return all(told["limits"][name] != 0 for name in facts.TOKENS)
    counted = (*facts.TOKENS, *facts.MONEY) if told["spent"]["metered"] else facts.TOKENS
    return all(told["within"][name] for name in counted)


def _failed(checks: Mapping[str, bool]) -> tuple[str, ...]:
    return tuple(sorted([reason for reason, passed in checks.items() if not passed]))
