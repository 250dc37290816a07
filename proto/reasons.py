"""The reasons that a decision may give: ids that the policy yields, and the fixed sentence that a session reads.

An id that is not listed here makes the decision a denial (`policy-invalid`).
"""

from typing import Final

from proto.faults import FAULTS

REASONS: Final[dict[str, str]] = {
    "granted": "allowed by a grant",
    "built-in": "allowed by a built-in grant",
    "approved": "allowed by the owner",
    "within-ceiling": "allowed: the session's label is within the ceiling of the destination",
    "no-grant": "refused: no grant allows this call",
    "grant-denies": "refused: a grant denies this call",
    "taint": "refused: the session's label is above what the grant allows",
    "host": "refused: the grant does not name this host",
    "path": "refused: the grant does not name this path",
    "pattern": "refused: the grant does not name this command",
    "scheme": "refused: only https is fetched",
    "arguments": "refused: the arguments have not the tool's shape",
    "asks": "the owner is asked",
    "untrusted-host": "the owner is asked: the session has read untrusted content and no grant names this host exactly",
    "policy-asks": "the owner is asked: a policy of the root's own wants it",
    "policy-denies": "refused: a policy of the root's own denies it",
    "denied": "refused: the owner said no",
    "lapsed": "refused: the owner did not answer in time",
    "label-rose": "refused: the session's label rose while the owner was asked",
    "ceiling": FAULTS["ceiling"].sentence,
    "channel-ceiling": FAULTS["channel-ceiling"].sentence,
    "spend": FAULTS["spend"].sentence,
    "unpriced": FAULTS["unpriced"].sentence,
    "hosted-tool": FAULTS["hosted-tool"].sentence,
    "tunnel-host": FAULTS["tunnel-host"].sentence,
    "destination": "refused: the destination is not configured",
    "tool-unknown": "refused: there is no tool of that name",
    "session-not-open": FAULTS["session-not-open"].sentence,
    "runtime-absent": FAULTS["runtime-absent"].sentence,
    "grants-invalid": FAULTS["grants-invalid"].sentence,
    "rules-invalid": FAULTS["rules-invalid"].sentence,
    "policy-invalid": FAULTS["policy-invalid"].sentence,
}
