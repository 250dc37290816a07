"""What modules read of an input is all that the engine is given, and its answer is as it would be to the whole."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd import facts
from brokerd.policy import modules
from brokerd.policy.engine import Engine
from brokerd.policy.narrow import Narrow
from tests.brokerd.policy.terms import damaged, egress_terms, tool_terms

HEAD = "package boxmaker.root\n\nimport rego.v1\n\n"
ROOTS = (
    "",
    HEAD + 'deny contains "policy-denies" if input.arguments.a == input.tool\nask if input.session.class_rank == 1\n',
    HEAD + 'deny contains "policy-denies" if {\n\tsome part in input["session"]\n\tpart == 1\n}\n',
    HEAD + 'deny contains "policy-denies" if 3-input.session.class_rank > 2\n',
    HEAD + "import input.facts as told\n\nask if told.host\n",
    HEAD + 'deny contains "policy-denies" if input\n\t.session\n\t.untrusted\n',
    HEAD + 'deny contains "policy-denies" if {\n\tinput.what == "call"\n\tinput.facts.spent.day_tokens > 99\n}\n',
)
ENGINES: dict[str, tuple[Engine, Narrow]] = {}


def _texts(root: str) -> list[tuple[str, str]]:
    return modules.in_force(modules.built_in()) + ([("policy/root.rego", root)] if root else [])


def _loaded(root: str) -> tuple[Engine, Narrow]:
    if root not in ENGINES:
        ENGINES[root] = (Engine(_texts(root)), Narrow(_texts(root)))
    return ENGINES[root]


def _narrow(body: str) -> Narrow:
    return Narrow([("policy/root.rego", HEAD + body)])


terms = st.one_of(tool_terms, egress_terms, damaged(tool_terms), damaged(egress_terms))


@settings(max_examples=150)
@given(terms, st.sampled_from(ROOTS), st.sampled_from([facts.TOOL, facts.EGRESS]))
def test_the_answer_to_what_is_read_is_the_answer_to_the_whole(
    term: dict[str, Any], root: str, entrypoint: str
) -> None:
    engine, narrow = _loaded(root)
    assert engine.ask(entrypoint, json.dumps(narrow(term))) == engine.ask(entrypoint, json.dumps(term))


def test_the_built_in_policy_reads_no_clock_no_sum_and_no_text_of_a_call() -> None:
    term = {"model": "m", "path": "/", "now": {"unix_s": 1}, "what": "call", "spending": {}, "arguments": {"a": 1}}
    narrow = _loaded("")[1]
    assert narrow({**term, "facts": {"spent": {"day_tokens": 7, "metered": True}, "priced": True}}) == {
        "what": "call",
        "facts": {"spent": {"metered": True}, "priced": True},
    }
    assert narrow.lasting


@pytest.mark.parametrize(
    "body",
    [
        'ask if input["session"].open\n',
        "ask if {\n\tsome key\n\tinput[key] == 1\n}\n",
        'ask if object.get(input, "tool", "") == "x"\n',
        "ask if walk(input, [_, 1])\n",
        "import input as all_of_it\n\nask if all_of_it.tool\n",
    ],
)
def test_where_a_part_is_not_named_plainly_all_is_read(body: str) -> None:
    term = {"tool": "x", "anything": [1]}
    assert _narrow(body)(term) == term


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("ask if input.a.b\nask if input.a\n", {"a": {"b": 1, "c": 2}}),
        ("ask if input.a\nask if input.a.b\n", {"a": {"b": 1, "c": 2}}),
        ("ask if input.a[input.d]\n", {"a": {"b": 1, "c": 2}, "d": "b"}),
        ("ask if input.a.b == 1 # input\n", {"a": {"b": 1}}),
        ('ask if input.d.e == "input"\n', {"d": "b"}),
        ("ask if 1-input.a.b == 0\n", {"a": {"b": 1}}),
        ("ask if inputs.a.b\n", {}),
    ],
)
def test_what_is_read_is_what_is_named(body: str, kept: dict[str, Any]) -> None:
    assert _narrow(body)({"a": {"b": 1, "c": 2}, "d": "b"}) == kept


@pytest.mark.parametrize(
    "call", ["time.now_ns() > 1", 'rand.intn("a", 2) == 1', 'uuid.rfc4122("") != ""', 'io.jwt.decode_verify("", {})']
)
def test_what_answers_otherwise_each_time_is_noticed(call: str) -> None:
    assert not _narrow(f"ask if {call}\n").lasting
    assert _narrow("ask if time.clock(1) == [0, 0, 0]\n").lasting
