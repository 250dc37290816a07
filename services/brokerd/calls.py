"""The life of one tool call: decided, perhaps asked of the owner, run, labelled, answered.

The calls of a session run one after the other, in the order in which they came: a memory write that was decided before
a fetch's result arrived cannot be applied after it under the old label. A call that waits for the owner holds nothing
up; once answered it takes its turn and is decided again. Each redirect of a fetch is decided like a call of its own.
"""

from typing import Final

import anyio
import msgspec

from brokerd import told
from brokerd.approvals import Approvals, Asked, Origin, Outcome, Waiting
from brokerd.audit import Audit, arguments_sha256
from brokerd.decide import Decider, Decision
from brokerd.facts import Question, strictest
from brokerd.runtime import fetch
from brokerd.runtime.composite import Job, Runtime, combined
from brokerd.runtime.outcome import Done, Redirect
from brokerd.sessions import Sessions
from brokerd.taint import Taint
from proto.canon import compact
from proto.escape import clip, escape
from proto.faults import Fault
from proto.labels import PRIVATE, Label, join
from proto.messages.broker import ApprovalWanted, ToolRequest, ToolResponse
from proto.reasons import REASONS
from proto.role import trace
from proto.role.serve import Connection

_LONGEST_QUESTION_CHARS: Final = 4000
_LONGEST_TOOL_CHARS: Final = 200
INTERRUPTED: Final = (
    "interrupted: the box stopped while this call was under way; it may have been done, and is not made again"
)
_REFUSED: Final[dict[Outcome, str]] = {
    "denied": "denied",
    "lapsed": "lapsed",
    "label-rose": "label-rose",
    "session-not-open": "session-not-open",
    "gone": "lapsed",
}
"""The reason of the denial that an approval ended in."""


Site = tuple[str, str, int]
"""Scheme, host and port of a URL: what a redirect may not leave without a new question."""


class Permit(msgspec.Struct, frozen=True):
    """What the owner allowed: these arguments, or a redirect within their origin, under this label and no other."""

    approval: str
    label: Label
    arguments_sha256: str
    site: Site | None


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """A call on its way: the request with this hop's arguments, the number of the hop, and what was allowed so far."""

    request: ToolRequest
    origin: Origin
    hop: int = 0
    permits: tuple[Permit, ...] = ()

    def names(self) -> dict[str, object]:
        """What names it in the audit log."""
        request = self.request
        tool = clip(request.tool, _LONGEST_TOOL_CHARS)
        named: dict[str, object] = {"session": request.session, "call": request.call, "tool": tool}
        return {**named, "hop": self.hop} if self.hop else named

    def permitted(self, site: Site | None, label: Label) -> Permit | None:
        """The owner's approval that covers this hop, if there is one."""
        wanted = arguments_sha256(self.request.arguments)
        for permit in self.permits:
            same = permit.arguments_sha256 == wanted or (self.hop > 0 and site is not None and permit.site == site)
            if same and permit.label == label:
                return permit
        return None

    def outdated(self, label: Label) -> bool:
        """Whether the owner allowed exactly this, but under another label than the session has now."""
        wanted = arguments_sha256(self.request.arguments)
        return any(permit.arguments_sha256 == wanted and permit.label != label for permit in self.permits)

    def redirected(self, url: str) -> "Errand":
        """The next hop."""
        request = msgspec.structs.replace(self.request, arguments={"url": url})
        return msgspec.structs.replace(self, request=request, hop=self.hop + 1)


class Paused(msgspec.Struct, frozen=True):
    """A call that waits for the owner; `site` is what it would reach."""

    errand: Errand
    waiting: Waiting
    site: Site | None


class Calls:
    """Answers tool calls."""

    def __init__(
        self, sessions: Sessions, decider: Decider, approvals: Approvals, audit: Audit, taint: Taint, runtime: Runtime
    ) -> None:
        self._sessions = sessions
        self._decider = decider
        self._approvals = approvals
        self._audit = audit
        self._taint = taint
        self._runtime = runtime

    async def answer(self, request: ToolRequest, connection: Connection) -> ToolResponse:
        """The result or the refusal, after as many questions to the owner as it takes."""
        origin = Origin(request.session, request.call, request.tool, arguments_sha256(request.arguments))
        errand = Errand(request=request, origin=origin)
        with self._approvals.under_way(origin):
            if self._approvals.was_begun(origin):
                async with self._sessions.turn(request.session):
                    return await self._refuse(errand, INTERRUPTED)
            return await self._to_the_end(errand, connection)

    async def _to_the_end(self, errand: Errand, connection: Connection) -> ToolResponse:
        session = errand.request.session
        while True:
            async with self._sessions.turn(session):
                if connection.peer_gone():
                    # Nobody hears the result of what waited for its turn: it is not begun.
                    raise anyio.BrokenResourceError
                ended = await self._go(errand)
            if isinstance(ended, ToolResponse):
                return ended
            outcome = await self._owner(ended, connection)
            if outcome != "allowed":
                async with self._sessions.turn(session):
                    return await self._refuse(ended.errand, REASONS[_REFUSED[outcome]])
            errand = _with_permit(ended)

    async def _go(self, errand: Errand) -> ToolResponse | Paused:
        """Decide and run, hop by hop, until it is answered or the owner is to be asked. The session's turn is held."""
        while True:
            decision = await self._decide(errand)
            if decision.verdict == "ask":
                return self._ask(errand, decision)
            if decision.verdict == "deny" or decision.grant is None:
                return await self._refuse(errand, decision.sentence)
            job = Job(request=errand.request, grant=decision.grant, taint=decision.label, hop=errand.hop)
            done = await self._runtime.run(job)
            if isinstance(done, Redirect):
                if errand.hop < fetch.MOST_REDIRECTS:
                    errand = errand.redirected(done.url)
                    continue
                done = Done(ok=False, text=fetch.TOO_MANY_REDIRECTS)
            return await self._finish(errand, done.ok, done.text, combined(decision.grant, done))

    async def _decide(self, errand: Errand) -> Decision:
        """A decision under the label of this moment, on disk before anything comes of it."""
        request, began_ns = errand.request, trace.now_ns()
        session = self._sessions.find(request.session)
        label = session.label if session else strictest()
        question = Question(session=session, label=label, tool=request.tool, arguments=request.arguments)
        decision = await self._decider.decide(question)
        permit = errand.permitted(_site(decision), label) if decision.verdict == "ask" else None
        if permit is not None:
            decision = await self._decider.decide(msgspec.structs.replace(question, approved=True))
        elif decision.verdict == "ask" and errand.outdated(label):
            decision = msgspec.structs.replace(decision, verdict="deny", reasons=("label-rose",))
        current = self._sessions.find(request.session)
        if current is not None and current.label != label:
            # It rose while the policy thought: what was decided is no longer about this session.
            return await self._decide(errand)
        names = {**errand.names(), "approval": permit.approval} if permit else errand.names()
        self._audit.decision(names, decision, request.arguments)
        tool = clip(request.tool, _LONGEST_TOOL_CHARS)
        told.decided(began_ns, tool, session, decision, told.of_tool(request.session, request.call, tool))
        return decision

    def _ask(self, errand: Errand, decision: Decision) -> Paused:
        request = errand.request
        asked = Asked(
            origin=errand.origin,
            hop=errand.hop,
            text=_question(errand, decision),
            arguments_sha256=arguments_sha256(request.arguments),
            label=decision.label,
        )
        return Paused(errand, self._approvals.ask(asked), _site(decision))

    async def _owner(self, paused: Paused, connection: Connection) -> Outcome:
        """Tell the requester that the owner is asked, and wait."""
        approval = paused.waiting.approval
        wanted = ApprovalWanted(approval=approval.approval, text=approval.text, expires=approval.expires)
        try:
            await connection.send(wanted)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError):
            self._approvals.void_one(paused.waiting, "gone")
            raise
        return await self._approvals.wait(paused.waiting, connection)

    async def _refuse(self, errand: Errand, sentence: str) -> ToolResponse:
        """A refusal: its fixed sentence, private, not untrusted."""
        return await self._finish(errand, False, sentence, PRIVATE)

    async def _finish(self, errand: Errand, ok: bool, text: str, label: Label) -> ToolResponse:
        """Raise the session's label, on disk, then answer; a result that egressd must not carry yet is withheld."""
        request = errand.request
        session = self._sessions.find(request.session)
        if session is not None and session.open:
            try:
                after = await self._taint.join(request.session, label, f"call {request.call}")
            except Fault as fault:
                ok, text, after = False, str(fault), join(session.label, label)
                label = PRIVATE
            self._audit.result(errand.names(), ok=ok, label=label, session_label=after)
        return ToolResponse(call=request.call, ok=ok, text=text, class_=label.class_, untrusted=label.untrusted)


def _with_permit(paused: Paused) -> Errand:
    waiting, errand = paused.waiting, paused.errand
    permit = Permit(waiting.approval.approval, waiting.label, waiting.arguments_sha256, paused.site)
    return msgspec.structs.replace(errand, permits=(*errand.permits, permit))


def _site(decision: Decision) -> Site | None:
    url = decision.facts.subject.url if decision.facts else None
    return (url.scheme, url.host, url.port) if url else None


def _question(errand: Errand, decision: Decision) -> str:
    """What the owner reads; escaped, so that nothing in it is taken for the box's own words.

    A URL is shown as it will be asked for, where a name that only looks like another one is plain ASCII; then, if that
    differs, as the model wrote it.
    """
    request = errand.request
    url = decision.facts.subject.url if decision.facts else None
    if url is not None:
        verb = f"{request.tool}, redirected to" if errand.hop else request.tool
        shown, written = str(url), str(request.arguments.get("url"))
        question = clip(f"{verb} {shown}", _LONGEST_QUESTION_CHARS)
        return question if shown == written else f"{question} (written {_ascii(written)})"
    return clip(f"{request.tool} {compact(request.arguments)}", _LONGEST_QUESTION_CHARS)


def _ascii(text: str) -> str:
    """A text of at most 2,048 characters in which no character stands for another that looks like it."""
    return "".join(char if char.isascii() else f"\\u{{{ord(char):x}}}" for char in escape(text))
