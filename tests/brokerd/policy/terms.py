"""Inputs of the policy for properties: true ones, and ones in which anything may be missing or of another type."""

import json
from typing import Any

from hypothesis import strategies as st

from brokerd import facts

ranks = st.integers(0, 2)
flags = st.booleans()
hostile = st.sampled_from(
    ['","allow":true,"x":"', "a\nb", "\0", "}]}", "é\u2028\U0001f600", '\\"', "\\", "policy-denies"]
) | st.text(max_size=12)

_session = st.fixed_dictionaries(
    {
        "open": flags,
        "kind": st.sampled_from(["chat", "run", ""]),
        "principal": hostile,
        "principal_class_rank": ranks,
        "domain": st.just("dom-me"),
        "destination": st.just("local"),
        "class_rank": ranks,
        "untrusted": flags,
    }
)
_grant = st.fixed_dictionaries(
    {
        "built_in": flags,
        "mode": st.sampled_from(["auto", "ask", "deny"]),
        "max_taint_rank": ranks,
        "result_class_rank": ranks,
        "result_untrusted": flags,
    }
)
_facts = st.fixed_dictionaries(
    {
        name: st.sampled_from([True, True, True, False])
        for name in (
            "grants_valid",
            "tool_known",
            "arguments_valid",
            "runtime_present",
            "scheme",
            "host",
            "host_exact",
            "path",
            "pattern",
            "reaches_host",
        )
    }
)
tool_terms = st.fixed_dictionaries(
    {
        "decision": st.just("tool"),
        "tool": hostile,
        "arguments": st.dictionaries(hostile, hostile, max_size=3),
        "approved": flags,
        "session": _session,
        "grant": st.none() | _grant | _grant,
        "facts": _facts,
        "host": hostile,
        "now": st.just({"unix_s": 0, "hour_utc": 0, "minute": 0, "weekday": 1}),
    }
)
_usual = st.sampled_from([True, True, True, False])
_sum = st.sampled_from([-1, 0, 99, 100, 101, (1 << 53) + 1, 1 << 62])
_limit = st.sampled_from([-1, -1, 0, 100, 1 << 53, (1 << 62) - 1])
_SPENT = ("session_tokens", "day_tokens", "session_nusd", "day_nusd")


def _compared(term: dict[str, Any]) -> dict[str, Any]:
    """A term with what is worked out of its sums, as `facts` does it."""
    told = term["facts"]
    compared = {
        "within": facts.within(told["limits"], told["spent"]),
        "priced": facts.is_priced(told["limits"], told["spent"]),
    }
    return {**term, "facts": {**told, **compared}}


egress_terms = st.fixed_dictionaries(
    {
        "decision": st.just("egress"),
        "destination": st.just("local"),
        "method": hostile,
        "path": hostile,
        "what": st.sampled_from(["call", "call", "read", "tunnel", "post"]),
        "model": hostile,
        "hosted_tools": st.lists(hostile, max_size=2),
        "spending": st.none() | st.dictionaries(st.sampled_from(_SPENT), _sum),
        "session": _session,
        "facts": st.fixed_dictionaries(
            {
                "rules_valid": _usual,
                "destination_known": _usual,
                "of_no_session": st.sampled_from([False, False, True]),
                "ceiling_rank": st.integers(-1, 2),
                "channel_rank": st.integers(-1, 2),
                "tunnel_named": _usual,
                "hosted_tools_named": _usual,
                "limits": st.fixed_dictionaries(dict.fromkeys(_SPENT, _limit)),
                "spent": st.fixed_dictionaries({**dict.fromkeys(_SPENT, _sum), "metered": flags}),
            }
        ),
        "now": st.just({"unix_s": 0, "hour_utc": 0, "minute": 0, "weekday": 1}),
    }
).map(_compared)


@st.composite
def damaged(draw: st.DrawFn, terms: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    """A term in which one thing is missing or of another type."""
    term: dict[str, Any] = json.loads(json.dumps(draw(terms)))
    holder = term
    while True:
        key = draw(st.sampled_from(sorted(holder) or ["x"]))
        inner = holder.get(key)
        if isinstance(inner, dict) and inner and draw(flags):
            holder = inner
            continue
        if draw(flags):
            holder.pop(key, None)
        else:
            holder[key] = draw(st.sampled_from([None, "true", 1, -5, [], {}, True, False, "0", 1.5]))
        return term
