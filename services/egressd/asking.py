"""Asking brokerd: may these bytes leave, now?

What waits at the same time is asked together: the way to brokerd and its wait for the disk cost more than a decision
does. Laws (tested):

1. Each question is answered once, with its own answer; one that nobody waits for any more, or that cannot be written,
   costs the others nothing.
2. A question that arrives when no other is under way leaves at once; what comes meanwhile goes together when that is
   answered, or takes long.
3. Of one session only some wait or are under way, so that another's question does not stand behind all of those that a
   busy one has.
4. What was sent is never sent again.
"""

import asyncio
from collections import deque
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

import anyio

from egressd.config import Relay
from proto import frame
from proto.faults import Fault
from proto.messages.broker import MOST_ASKS, EgressAsk, EgressAsks, EgressDecision, EgressDecisions
from proto.messages.wire import Error
from proto.role import trace
from proto.role.call import call
from proto.role.log import logger
from proto.role.replies import fault_of

_CONNECT_WITHIN_S: Final = 2.0
"""A brokerd that is being started again is waited for so long."""
_FRAMES: Final = 2
"""Under way at once: while brokerd waits for a slow disk with one, it decides about the next."""
_PROMPT_S: Final = 0.003
"""A frame that is not answered within this time no longer holds the next one back. A few full frames cost both daemons
less than many small ones."""
_ROOM_BYTES: Final = frame.MAX_FRAME - 256
"""For the questions of a frame; the rest is for what stands around them."""
_MOST_OF_ONE: Final = 16
"""Questions of one session."""
_MOST_REFUSED: Final = 1_000
"""In a row: who asks on gets an answer twice a second, since each is a line in the audit log. A thousand calls at once
that find a limit reached are refused at once."""
_HESITATION_S: Final = 0.5
_MOST_SESSIONS: Final = 4_096


class _Own:
    """The turns of one session, while anybody waits for one."""

    def __init__(self) -> None:
        self.turns = anyio.Semaphore(_MOST_OF_ONE, fast_acquire=True)
        self.hesitating = anyio.Lock()


class _Question:
    """A question, and its answer when it has come: cancelled, nobody waits for it any more. One that cannot be written
    raises here, and is in no frame.
    """

    def __init__(self, ask: EgressAsk) -> None:
        self.ask = ask
        self.size_bytes = len(frame.body(ask))
        self.answer: asyncio.Future[EgressDecision | Fault] = asyncio.get_running_loop().create_future()


class _Frame:
    """A frame that is under way, and whether the next one waits for its answer."""

    def __init__(self) -> None:
        self.holds = True


class Asking:
    """Asks over brokerd's socket for decisions, while `run` runs."""

    def __init__(self, path: Path, limits: Relay) -> None:
        self._path = path
        self._limits = limits
        self._waiting: deque[_Question] = deque()
        self._under_way: list[_Frame] = []
        self._more = anyio.Event()
        """Set when a question has come, or a frame may leave again."""
        self._of_one: WeakValueDictionary[str | None, _Own] = WeakValueDictionary()
        self._refused: dict[str | None, int] = {}
        """How often a session was refused in a row; the one refused last stands last."""

    async def run(self) -> None:
        """Take questions to brokerd until cancelled."""
        async with anyio.create_task_group() as tasks:
            for _ in range(_FRAMES):
                tasks.start_soon(self._carry)

    async def __call__(self, ask: EgressAsk) -> EgressDecision:
        """What brokerd says.

        Raises:
            Fault: it does not answer, or answers with an error.

        """
        own = self._of_one.get(ask.session)
        if own is None:
            own = self._of_one[ask.session] = _Own()
        async with own.turns:
            if self._refused.get(ask.session, 0) >= _MOST_REFUSED:
                await _hesitate(own)
            answer = await self._answer(ask)
        if isinstance(answer, Fault):
            raise answer
        self._count(ask.session, answer)
        return answer

    def _count(self, session: str | None, decision: EgressDecision) -> None:
        refused = self._refused.pop(session, 0)
        if not decision.allow:
            self._refused[session] = refused + 1
            if len(self._refused) > _MOST_SESSIONS:
                del self._refused[next(iter(self._refused))]

    async def _answer(self, ask: EgressAsk) -> EgressDecision | Fault:
        question = _Question(trace.joined(ask))
        if not self._waiting and self._may_leave():
            # Nobody else waits: it goes at once and alone, without the way by a courier.
            (answer,) = await self._answers([question])
            return answer
        self._waiting.append(question)
        self._more.set()
        return await question.answer

    async def _carry(self) -> None:
        """Take frame after frame to brokerd."""
        while True:
            if self._may_leave() and (questions := self._next()):
                for question, answer in zip(questions, await self._answers(questions), strict=True):
                    if not question.answer.done():
                        question.answer.set_result(answer)
            else:
                if self._more.is_set():
                    self._more = anyio.Event()
                await self._more.wait()

    def _may_leave(self) -> bool:
        """Whether another frame may."""
        return len(self._under_way) < _FRAMES and not any(one.holds for one in self._under_way)

    def _let_pass(self, late: _Frame) -> None:
        late.holds = False
        self._go_on()

    def _go_on(self) -> None:
        if self._waiting:
            self._more.set()

    def _next(self) -> list[_Question]:
        """The questions of the next frame: as many as it holds."""
        found: list[_Question] = []
        size_bytes = 0
        while self._waiting and len(found) < MOST_ASKS:
            question = self._waiting[0]
            if not question.answer.cancelled():
                size_bytes += question.size_bytes
                if found and size_bytes > _ROOM_BYTES:
                    break
                found.append(question)
            self._waiting.popleft()
        return found

    async def _answers(self, questions: list[_Question]) -> list[EgressDecision | Fault]:
        """The answer to each; where there is none to the frame, each has that fault."""
        leaving = _Frame()
        self._under_way.append(leaving)
        clock = asyncio.get_running_loop().call_later(_PROMPT_S, self._let_pass, leaving)
        try:
            decisions: EgressDecisions = await call(
                self._path,
                EgressAsks(asks=[question.ask for question in questions]),
                EgressDecisions,
                timeout_s=self._limits.ask_s,
                connect_within_s=_CONNECT_WITHIN_S,
                unreachable="brokerd-unreachable",
            )
            if len(decisions.answers) != len(questions):
                raise Fault("reply-unexpected")
        except Fault as fault:
            return [fault] * len(questions)
        except Exception:  # noqa: BLE001  (a courier that ended would end the daemon: no file is left for a socket)
            logger().exception("asking-failed")
            return [Fault("internal")] * len(questions)
        finally:
            clock.cancel()
            self._under_way.remove(leaving)
            self._go_on()
        return [fault_of(one) if isinstance(one, Error) else one for one in decisions.answers]


async def _hesitate(own: _Own) -> None:
    """Let a session wait that asks on and on for what it does not get."""
    async with own.hesitating:
        await anyio.sleep(_HESITATION_S)
