"""What brokerd's decision means for bytes that are about to leave: nothing, or a refusal with a code."""

from typing import Final

from egressd.wire.refusal import Denied
from proto.faults import FAULTS
from proto.messages.broker import EgressDecision
from proto.reasons import REASONS

_CODES: Final = {"destination": "destination-unknown"}
"""Reasons of brokerd whose code has another name."""


def check(decision: EgressDecision) -> None:
    """Let pass what was allowed.

    Raises:
        Denied: the denial, with the code of its first reason that has one.

    """
    if decision.allow:
        return
    found = [code for reason in decision.reasons if (code := _CODES.get(reason, reason)) in FAULTS]
    sentences = [REASONS[reason] for reason in decision.reasons if reason in REASONS]
    message = decision.message or "; ".join(sentences) or None
    raise Denied(found[0] if found else "policy-invalid", message)
