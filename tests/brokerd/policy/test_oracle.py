"""The built-in policy under two engines: what regopy says is what regorus says, and the laws of the policy hold."""

import json
from typing import Any

import pytest
import regorus
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd import facts
from brokerd.policy import modules
from brokerd.policy.engine import Engine
from brokerd.policy.verdict import INVALID, Verdict, read
from tests.brokerd.policy.terms import damaged, egress_terms, tool_terms

ROOT = """package boxmaker.root

import rego.v1

deny contains "policy-denies" if input.arguments.a == input.tool
deny contains "policy-denies" if startswith(input.host, "a")
ask if input.session.class_rank == 1
"""
ENGINES: dict[str, tuple[Engine, Any]] = {}
_RANKS = {"deny": 0, "ask": 1, "allow": 2}


def _pair(root: str) -> tuple[Engine, Any]:
    """The two engines with the built-in policy and a root module, or none."""
    if root not in ENGINES:
        texts = modules.in_force(modules.built_in()) + ([("policy/root.rego", root)] if root else [])
        oracle = regorus.Engine()
        for name, text in texts:
            oracle.add_policy(name, text)
        ENGINES[root] = (Engine(texts), oracle)
    return ENGINES[root]


def _ours(entrypoint: str, term: dict[str, Any], root: str = "") -> Verdict:
    return read(_pair(root)[0].ask(entrypoint, json.dumps(term, ensure_ascii=False)))


def _theirs(entrypoint: str, term: dict[str, Any], root: str = "") -> Verdict:
    oracle = _pair(root)[1]
    oracle.set_input_json(json.dumps(term))
    answer = oracle.eval_rule_as_json(f"data.{entrypoint.replace('/', '.')}")
    return read(json.dumps({"expressions": [json.loads(answer)]}))


@settings(max_examples=150)
@given(tool_terms, st.sampled_from(["", ROOT]))
def test_both_engines_decide_a_tool_call_alike(term: dict[str, Any], root: str) -> None:
    ours = _ours(facts.TOOL, term, root)
    assert ours == _theirs(facts.TOOL, term, root)
    assert ours != INVALID


@settings(max_examples=80)
@given(egress_terms)
def test_both_engines_decide_what_may_leave_alike(term: dict[str, Any]) -> None:
    ours = _ours(facts.EGRESS, term)
    assert ours == _theirs(facts.EGRESS, term)
    assert ours != INVALID
    assert ours.verdict == ("allow" if _may_leave(term) else "deny")


def _may_leave(term: dict[str, Any]) -> bool:
    """What may leave, again, in Python."""
    session, told = term["session"], term["facts"]
    limits, spent = told["limits"], told["spent"]
    money = [(limits[name], spent[name]) for name in ("session_nusd", "day_nusd")] if spent["metered"] else []
    tokens = [(limits[name], spent[name]) for name in ("session_tokens", "day_tokens")]
    spends = {
        "read": True,
        "post": session["class_rank"] <= told["channel_rank"],
        "tunnel": 0 not in [limit for limit, _ in tokens],
        "call": all(limit == -1 or 0 <= value <= limit for limit, value in [*tokens, *money]),
    }
    named = ("rules_valid", "destination_known", "tunnel_named", "hosted_tools_named")
    return (
        (session["open"] or (told["of_no_session"] and term["what"] == "read"))
        and all(told[name] for name in named)
        and session["class_rank"] <= told["ceiling_rank"]
        and spends[term["what"]]
    )


@settings(max_examples=80)
@given(damaged(egress_terms))
def test_what_leaves_has_passed_every_check_whatever_is_missing(term: dict[str, Any]) -> None:
    found = _ours(facts.EGRESS, term)
    if found.verdict == "allow":
        told = term["facts"]
        for name in ("rules_valid", "destination_known", "tunnel_named", "hosted_tools_named"):
            assert told[name] is True
        assert term["session"]["open"] is True or (told["of_no_session"] is True and term["what"] == "read")
        assert term["session"]["class_rank"] <= told["ceiling_rank"]
        assert term["what"] in ("call", "read", "tunnel", "post")
        assert term["what"] != "post" or term["session"]["class_rank"] <= told["channel_rank"]


def _expected(term: dict[str, Any]) -> str:
    """The policy again, in Python."""
    grant, session, told = term["grant"], term["session"], term["facts"]
    conditions = (
        "grants_valid",
        "tool_known",
        "arguments_valid",
        "runtime_present",
        "scheme",
        "host",
        "path",
        "pattern",
    )
    if not (session["open"] and grant and all(told[name] for name in conditions)):
        return "deny"
    if grant["mode"] == "deny" or session["class_rank"] > grant["max_taint_rank"]:
        return "deny"
    stranger = session["untrusted"] and told["reaches_host"] and not told["host_exact"]
    asks = grant["mode"] == "ask" or stranger
    return "ask" if asks and not term["approved"] else "allow"


@settings(max_examples=150)
@given(tool_terms)
def test_the_policy_says_what_the_documents_say(term: dict[str, Any]) -> None:
    assert _ours(facts.TOOL, term).verdict == _expected(term)


@settings(max_examples=100)
@given(tool_terms, st.integers(0, 2), st.booleans())
def test_a_label_that_rises_never_makes_a_decision_laxer(term: dict[str, Any], rank: int, untrusted: bool) -> None:
    session = term["session"]
    higher = {
        **session,
        "class_rank": max(rank, session["class_rank"]),
        "untrusted": untrusted or session["untrusted"],
    }
    before = _ours(facts.TOOL, term).verdict
    after = _ours(facts.TOOL, {**term, "session": higher}).verdict
    assert _RANKS[after] <= _RANKS[before]


@settings(max_examples=200)
@given(damaged(tool_terms))
def test_a_fact_that_is_missing_or_of_another_type_never_helps(term: dict[str, Any]) -> None:
    """What is not exactly true has not passed: only a term whose every check passes can be allowed."""
    found = _ours(facts.TOOL, term)
    if found.verdict == "allow":
        told, grant, session = term["facts"], term["grant"], term["session"]
        for name in (
            "grants_valid",
            "tool_known",
            "arguments_valid",
            "runtime_present",
            "scheme",
            "host",
            "path",
            "pattern",
        ):
            assert told[name] is True
        assert session["open"] is True
        assert grant["mode"] in ("auto", "ask")
        assert session["class_rank"] <= grant["max_taint_rank"]
        asks = grant["mode"] != "auto" or not (
            session.get("untrusted") is False or told.get("reaches_host") is False or told.get("host_exact") is True
        )
        assert term.get("approved") is True or not asks


@pytest.mark.parametrize(
    "text", ['","allow":true,"x":"', '"}]}', "a\nb", "\0", "\x1f", "\\", "\u2028", "\ud7ff", "😀" * 50]
)
def test_no_text_forges_an_answer_even_where_a_root_echoes_it(text: str) -> None:
    root = "package boxmaker.root\n\nimport rego.v1\n\ndeny contains input.arguments.url if input.arguments.url\n"
    term = {
        "decision": "tool",
        "tool": text,
        "approved": False,
        "arguments": {"url": text},
        "session": {"open": True, "class_rank": 0, "untrusted": False},
        "grant": {"mode": "auto", "max_taint_rank": 2, "built_in": False},
        "facts": dict.fromkeys(
            ("grants_valid", "tool_known", "arguments_valid", "runtime_present", "scheme", "host", "path", "pattern"),
            True,
        ),
    }
    assert _ours(facts.TOOL, term, root) == INVALID
    assert _ours(facts.TOOL, {**term, "arguments": {}}, root).verdict == "allow"
