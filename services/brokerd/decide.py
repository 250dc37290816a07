"""A decision: facts, the policy's verdict on them, and what Python does not let any policy allow.

Every fault on the way is a denial (layout, law 7): this module raises nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from brokerd import facts, guard
from brokerd.facts import Facts, Question
from brokerd.grants.grant import Grant
from brokerd.grants.shelf import Shelf
from brokerd.policy.inforce import NO_POLICY, Answer, Policy
from brokerd.policy.verdict import Verdict
from brokerd.sessions import Session
from brokerd.watch import Watched
from proto.escape import clip
from proto.faults import Fault
from proto.labels import Label
from proto.messages.broker import EgressAsk
from proto.reasons import REASONS
from proto.role.clock import Clock
from proto.role.config import parse
from proto.role.log import logger
from proto.rules import FILE, Rules

_LARGEST_RULES_BYTES: Final = 1 << 20
_TOLD_FIRST: Final = (
    "session-not-open",
    "grants-invalid",
    "rules-invalid",
    "policy-invalid",
    "tool-unknown",
    "runtime-absent",
    "arguments",
    "no-grant",
    "grant-denies",
    "scheme",
    "host",
    "path",
    "pattern",
    "taint",
    "destination",
    "ceiling",
    "channel-ceiling",
    "tunnel-host",
    "hosted-tool",
    "unpriced",
    "spend",
)
"""Of several reasons the session is told one: the first of these, or else the first by name."""
_RANK_TOLD: Final = {reason: rank for rank, reason in enumerate(_TOLD_FIRST)}


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided, under which label, grant and policy. `detail` says what is wrong with the arguments."""

    verdict: Literal["allow", "ask", "deny"]
    reasons: tuple[str, ...]
    label: Label
    policy: str
    grant: Grant | None = None
    facts: Facts | None = None

    @property
    def sentence(self) -> str:
        """What the session is told of a denial."""
        told = min(self.reasons, key=lambda reason: _RANK_TOLD.get(reason, len(_RANK_TOLD)))
        if told == "arguments" and self.facts and self.facts.problem:
            return f"{REASONS[told]}: {clip(self.facts.problem, 300)}"
        return REASONS[told]


class Decider:
    """Decides tool calls."""

    def __init__(self, shelf: Shelf, policy: Policy, clock: Clock) -> None:
        self.shelf = shelf
        self.policy = policy
        self._clock = clock

    async def decide(self, question: Question) -> Decision:
        """The decision on a call, under the grants and the policy as they are now."""
        grants = self.shelf.now()
        found = facts.of_tool(question, grants, self._clock())
        if found.problem is not None:
            # The policy is not asked about what has no shape: such arguments are of any size.
            answer = Answer(Verdict("deny", guard.tool_denials(found, grants, question)), NO_POLICY)
        else:
            answer = await self.policy.ask(facts.TOOL, found.term)
        verdict = guard.keep_tool(answer.verdict, found, grants, question)
        return Decision(
            verdict=verdict.verdict,
            reasons=verdict.reasons,
            label=question.label,
            policy=answer.policy,
            grant=found.grant,
            facts=found,
        )


class EgressDecider:
    """Decides whether bytes may leave: its own policy worker, no session's lock, no daemon called."""

    def __init__(self, home: Path, policy: Policy, clock: Clock) -> None:
        self._watched = Watched(home / FILE, None, _LARGEST_RULES_BYTES)
        self._policy = policy
        self._clock = clock
        self._read: bytes | None = None
        self._parsed: Rules | None = None

    def at_once(self, ask: EgressAsk, session: Session | None, label: Label) -> Decision | None:
        """As `decide`, without waiting; None where the policy must be waited for."""
        term = self._term(ask, session, label)
        answer = self._policy.at_once(facts.EGRESS, term)
        return None if answer is None else _guarded(answer, term, label)

    async def decide(self, ask: EgressAsk, session: Session | None, label: Label) -> Decision:
        """The decision under the ceilings as grants.toml has them now."""
        term = self._term(ask, session, label)
        return _guarded(await self._policy.ask(facts.EGRESS, term), term, label)

    def _term(self, ask: EgressAsk, session: Session | None, label: Label) -> Mapping[str, Any]:
        return facts.of_egress(ask, session, label, self._rules(), self._clock())

    def _rules(self) -> Rules | None:
        content = self._watched.read().get(FILE, b"")
        if isinstance(content, OSError):
            return None
        # TOML is read slowly; the same bytes are the same rules.
        if content != self._read:
            self._read, self._parsed = content, self._parse(content)
        return self._parsed

    def _parse(self, content: bytes) -> Rules | None:
        try:
            return parse(content.decode(), FILE, Rules)
        except Exception as error:  # noqa: BLE001  (rules that cannot be read are none, whatever the reason)
            if not isinstance(error, Fault | UnicodeDecodeError):
                logger().exception("rules-unreadable")
            return None


def _guarded(answer: Answer, term: Mapping[str, Any], label: Label) -> Decision:
    """The decision on bytes that would leave: the policy's answer to an input, or a stricter one."""
    verdict = guard.keep_egress(answer.verdict, term)
    return Decision(verdict=verdict.verdict, reasons=verdict.reasons, label=label, policy=answer.policy)
