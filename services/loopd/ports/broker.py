"""brokerd, asked over `run/loop-broker/broker.sock`: sessions and their labels, tool calls, approvals.

A request is sent once. Only a tool call of which brokerd said that it waits for the owner is sent again when brokerd
went away meanwhile: it has not run, brokerd knows the approval by the call, and answers one that had begun without it.
"""

from collections.abc import Callable
from datetime import datetime
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final, Literal

import anyio

from loopd.session.baseline import Baseline
from loopd.tools.calls import Wanted
from loopd.turn.steps import ApprovalAsked, ToolAnswered, ToolFailed
from proto.faults import Fault
from proto.labels import PRIVATE, PUBLIC, Label
from proto.messages.broker import (
    ApprovalAnswer,
    ApprovalIgnored,
    ApprovalWanted,
    SessionClose,
    SessionLabel,
    SessionOpen,
    SessionState,
    ToolRequest,
    ToolResponse,
)
from proto.messages.wire import Ok
from proto.role.call import call, stream
from proto.role.clock import Clock, now, parse
from proto.role.log import logger

UNREACHABLE: Final = "brokerd-unreachable"
_CALL_SECONDS: Final = 180.0
"""A call may wait for memoryd, or fetch over some redirects; past this brokerd counts as gone."""
_UNTOLD_SECONDS: Final = 7200.0
"""Of an approval whose end cannot be read; one lapses after an hour by default."""
_LIST_SECONDS: Final = 1.0
_PAUSES_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Between two times of asking again; the last one from then on."""
_KINDS: Final[dict[str, Literal["chat", "mattermost", "run"]]] = {"mm": "mattermost", "run": "run"}
_NOT_HEARD: Final = frozenset({UNREACHABLE, "busy"})
_ENDS_TURN: Final = frozenset({UNREACHABLE, "session-not-open", "session-state-lost"})


class BrokerPort:
    """The way to brokerd."""

    def __init__(self, path: Path, domain: str, clock: Clock = now, connect_within_s: float = 2.0) -> None:
        self._path = path
        self._domain = domain
        self._clock = clock
        self._connect_within_s = connect_within_s

    async def open(self, baseline: Baseline, *, new: bool, label: Label = PRIVATE) -> Label:
        """Open a session with a label, or resume it; the label that it has, which is on brokerd's disk.

        Raises:
            Fault: `brokerd-unreachable`, `session-exists`, `session-state-lost`.

        """
        request = SessionOpen(
            session=baseline.session,
            new=new,
            session_kind=_KINDS.get(baseline.session.partition("-")[0], "chat"),
            principal=baseline.principal,
            principal_class=baseline.principal_class,
            domain=self._domain,
            destination=baseline.destination,
            auth=baseline.auth,
            tree=None,
            task=None,
            class_=label.class_,
            untrusted=label.untrusted,
        )
        return await self._state(request)

    async def raised(self, session: str, label: Label) -> Label:
        """Join a label into that of a session that is open; what it is then, on brokerd's disk.

        Raises:
            Fault: `brokerd-unreachable`, `session-not-open`.

        """
        return await self._state(SessionLabel(session=session, class_=label.class_, untrusted=label.untrusted))

    async def label(self, session: str) -> Label:
        """The label of a session that is open: joining public and trusted into it changes nothing, and is answered.

        Raises:
            Fault: `brokerd-unreachable`, `session-not-open`.

        """
        return await self.raised(session, PUBLIC)

    async def labels(self, sessions: list[str]) -> dict[str, Label]:
        """The labels of the sessions that are open, for a list: without brokerd it is shown without them, at once."""
        found: dict[str, Label] = {}
        for session in sessions:
            request = SessionLabel(session=session, class_=PUBLIC.class_, untrusted=PUBLIC.untrusted)
            try:
                found[session] = await self._state(request, timeout_s=_LIST_SECONDS, connect_within_s=0.0)
            except Fault as fault:
                if fault.code == UNREACHABLE:
                    break
        return found

    async def close(self, session: str) -> None:
        """Close a session that is full. Best effort: it is never taken up again, open or closed."""
        try:
            await self._state(SessionClose(session=session))
        except Fault as fault:
            logger().warning("session-not-closed", session=session, code=fault.code)

    async def run(
        self, session: str, wanted: Wanted, asked: Callable[[ApprovalAsked], Any], stop: anyio.Event
    ) -> ToolAnswered | ToolFailed:
        """Have a call decided and run. `asked` is told when it waits for the owner.

        While it waits, a brokerd that went away is asked again until the approval lapses, or `stop` is set.
        """
        request = ToolRequest(session=session, call=wanted.call.id, tool=wanted.tool, arguments=wanted.arguments)
        question = _Question(asked, stop)
        pauses = chain(_PAUSES_SECONDS, repeat(_PAUSES_SECONDS[-1]))
        try:
            while True:
                try:
                    return await self._run(request, question)
                except Fault as fault:
                    if fault.code not in _NOT_HEARD or question.left_s(self._clock()) <= 0 or stop.is_set():
                        raise
                    logger().warning("approval-asked-again", session=session, call=request.call, code=fault.code)
                with anyio.move_on_after(next(pauses)):
                    await stop.wait()
        except Fault as fault:
            return ToolFailed(fault.code, fault.message, fault.code in _ENDS_TURN)

    async def answer(self, answer: ApprovalAnswer) -> None:
        """Hand an answer of the owner on.

        Raises:
            Fault: `brokerd-unreachable`, `approval-unknown`.

        """
        await self._call(answer, Ok)

    async def ignored(self, ignored: ApprovalIgnored) -> None:
        """Have an answer that did not count audited. Best effort: nothing hangs on it."""
        try:
            await self._call(ignored, Ok)
        except Fault as fault:
            logger().warning("answer-not-audited", approval=ignored.approval, code=fault.code)

    async def _state(self, request: SessionOpen | SessionLabel | SessionClose, **limits: float) -> Label:
        state: SessionState = await self._call(request, SessionState, **limits)
        return Label(class_=state.class_, untrusted=state.untrusted)

    async def _call(self, request: Any, reply: Any, **limits: float) -> Any:
        limits = {"connect_within_s": self._connect_within_s, **limits}
        return await call(self._path, request, reply, unreachable=UNREACHABLE, **limits)

    async def _run(self, request: ToolRequest, question: "_Question") -> ToolAnswered:
        limit_s = _CALL_SECONDS
        async with stream(
            self._path,
            request,
            ApprovalWanted,
            ToolResponse,
            timeout_s=None,
            connect_within_s=self._connect_within_s,
            unreachable=UNREACHABLE,
        ) as answers:
            while True:
                answer = await _next(answers, limit_s)
                if isinstance(answer, ToolResponse):
                    return ToolAnswered(answer.ok, answer.text, Label(answer.class_, answer.untrusted))
                # It is answered or lapses by then, and what was allowed is run after.
                await question.hear(answer)
                limit_s = question.left_s(self._clock()) + _CALL_SECONDS


class _Question:
    """What the owner is asked about a call, as far as it is known."""

    def __init__(self, asked: Callable[[ApprovalAsked], Any], stop: anyio.Event) -> None:
        self._asked = asked
        self._stop = stop
        self._last: ApprovalWanted | None = None

    async def hear(self, wanted: ApprovalWanted) -> None:
        """Pass a question on; the same one again only when the turn was stopped meanwhile, to be denied."""
        known = self._last is not None and self._last.approval == wanted.approval
        self._last = wanted
        if not known or self._stop.is_set():
            await self._asked(ApprovalAsked(wanted.approval, wanted.text, wanted.expires))

    def left_s(self, time: datetime) -> float:
        """How long it waits for the owner still; 0 when nobody is asked."""
        return _seconds_until(self._last.expires, time) if self._last else 0.0


def _seconds_until(expires: str, time: datetime) -> float:
    try:
        return max(0.0, (parse(expires) - time).total_seconds())
    except ValueError:
        return _UNTOLD_SECONDS


async def _next(answers: Any, limit_s: float) -> Any:
    try:
        with anyio.fail_after(limit_s):
            return await anext(answers)
    except (TimeoutError, StopAsyncIteration):
        raise Fault(UNREACHABLE) from None
