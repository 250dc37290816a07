"""Reading the engine's answer: two booleans and known reasons, or a denial.

Only `allow == true` with `ask` exactly true or false is not a denial (contract, "Policy").
"""

import json
from typing import Any, Final, Literal

import msgspec

from proto.reasons import REASONS

_KEYS: Final = {"allow", "ask", "reasons"}


class Verdict(msgspec.Struct, frozen=True):
    """What the policy says, and by which reasons (ids of proto.reasons, sorted)."""

    verdict: Literal["allow", "ask", "deny"]
    reasons: tuple[str, ...]


INVALID: Final = Verdict("deny", ("policy-invalid",))
"""What anything unclear is."""


def read(answer: str | None) -> Verdict:
    """The verdict in an answer such as `{"expressions":[{"allow":true,"ask":false,"reasons":["granted"]}]}`."""
    try:
        value = json.loads(answer, object_pairs_hook=_once) if answer is not None else None
        decision = _only(value, {"expressions"})["expressions"]
        if not isinstance(decision, list) or len(decision) != 1:
            return INVALID
        return _verdict(_only(decision[0], _KEYS))
    except (ValueError, RecursionError):
        return INVALID


def _verdict(decision: dict[str, Any]) -> Verdict:
    allow, ask, reasons = decision["allow"], decision["ask"], decision["reasons"]
    if not isinstance(allow, bool) or not isinstance(ask, bool) or not isinstance(reasons, list):
        return INVALID
    if not all(isinstance(reason, str) and reason in REASONS for reason in reasons):
        return INVALID
    if not reasons:
        return INVALID
    kept = tuple(sorted(set(reasons)))
    if not allow:
        return Verdict("deny", kept)
    return Verdict("ask" if ask else "allow", kept)


def _only(value: Any, keys: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != keys:
        raise ValueError("not the shape of an answer")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A map whose keys stand once: a second `allow` would be a forged one."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found
