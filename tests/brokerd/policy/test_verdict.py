"""Only `allow == true` with `ask` exactly true or false, each key once and every reason known, is not a denial."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.policy.verdict import INVALID, Verdict, read
from proto.reasons import REASONS

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["allow", "ask", "reasons"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _answer(**decision: Any) -> str:
    return json.dumps({"expressions": [decision]})


@given(st.booleans(), st.booleans(), st.lists(st.sampled_from(sorted(REASONS)), min_size=1, max_size=4))
def test_a_clear_answer_is_read_as_it_is(allow: bool, ask: bool, reasons: list[str]) -> None:
    expected = "deny" if not allow else "ask" if ask else "allow"
    found = read(_answer(allow=allow, ask=ask, reasons=reasons))
    assert found == Verdict(expected, tuple(sorted(set(reasons))))  # type: ignore[arg-type]


@given(_json, _json, _json)
def test_anything_else_is_a_denial(allow: Any, ask: Any, reasons: Any) -> None:
    found = read(_answer(allow=allow, ask=ask, reasons=reasons))
    if found.verdict != "deny":
        assert (allow, ask in (True, False)) == (True, True)
        assert isinstance(allow, bool)
        assert isinstance(ask, bool)
        assert set(reasons) <= set(REASONS)


@given(st.text(max_size=60) | _json.map(json.dumps))
def test_no_junk_is_an_allowance(text: str) -> None:
    assert read(text) == INVALID


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "<error>",
        "undefined",
        '{"expressions":[]}',
        '{"expressions":[true]}',
        '{"expressions":[{"allow":true,"ask":false}]}',
        '{"expressions":[{"allow":true,"ask":false,"reasons":["granted"],"more":1}]}',
        '{"expressions":[{"allow":true,"ask":false,"reasons":["granted"]},{}]}',
        '{"expressions":[{"allow":false,"ask":false,"reasons":["taint"],"allow":true}]}',
        '{"expressions":[{"allow":true,"ask":false,"reasons":["granted"]}],"expressions":[]}',
        '{"expressions":[{"allow":"true","ask":false,"reasons":["granted"]}]}',
        '{"expressions":[{"allow":1,"ask":0,"reasons":["granted"]}]}',
        '{"expressions":[{"allow":true,"ask":null,"reasons":["granted"]}]}',
        '{"expressions":[{"allow":true,"ask":false,"reasons":["grantd"]}]}',
        '{"expressions":[{"allow":true,"ask":false,"reasons":["granted",7]}]}',
        '{"expressions":[{"allow":true,"ask":false,"reasons":{"granted":true}}]}',
        '{"expressions":[{"allow":true,"ask":false,"reasons":[]}]}',
        "[" * 100_000,
    ],
)
def test_each_of_these_is_policy_invalid(answer: str | None) -> None:
    assert read(answer) == INVALID
