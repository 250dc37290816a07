"""Questions for brokerd go together; each has its own answer, and a busy session does not keep another's waiting."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd import asking
from egressd.asking import Asking
from egressd.config import Relay
from proto import frame
from proto.faults import Fault
from proto.labels import DataClass
from proto.messages.broker import MOST_ASKS, EgressAsk, EgressAsks, EgressDecision, EgressDecisions
from proto.messages.wire import Error, error_of

pytestmark = pytest.mark.anyio


def _ask(session: str, number: int, model: str = "") -> EgressAsk:
    return EgressAsk(
        session=session, call=f"c{number}", destination="up", method="GET", path="/v1", what="read", model=model
    )


def _decision(ask: EgressAsk, *, allow: bool = True) -> EgressDecision:
    """A decision that tells for which question it was made."""
    return EgressDecision(
        allow=allow,
        reasons=[f"{ask.session} {ask.call}"],
        message="",
        class_=DataClass.PUBLIC,
        untrusted=False,
        domain=None,
    )


class Broker:
    """Takes frames in the place of `call`, and answers each when it is let go."""

    def __init__(self) -> None:
        self.frames: list[list[EgressAsk]] = []
        self.go = anyio.Event()
        self.go.set()
        self.denied: set[str | None] = set()
        self.failing: set[str] = set()
        self.wait_s: list[float] = []
        self.fault: Exception | None = None

    async def call(self, _: Path, request: EgressAsks, *__: object, **___: object) -> EgressDecisions:
        msgspec.convert(msgspec.to_builtins(request), EgressAsks)  # as many as may be
        frame.pack(request)
        self.frames.append(request.asks)
        await self.go.wait()
        await anyio.sleep(self.wait_s.pop() if self.wait_s else 0)
        if self.fault is not None:
            raise self.fault
        return EgressDecisions(answers=[self._answer(ask) for ask in request.asks])

    def _answer(self, ask: EgressAsk) -> EgressDecision | Error:
        if ask.call in self.failing:
            return error_of(Fault("policy-invalid", ask.call))
        return _decision(ask, allow=ask.session not in self.denied)

    def asked(self, session: str) -> int:
        """How many questions of a session came."""
        return sum(ask.session == session for frame in self.frames for ask in frame)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    found = Broker()
    monkeypatch.setattr(asking, "call", found.call)
    return found


@asynccontextmanager
async def running() -> AsyncIterator[Asking]:
    ask = Asking(Path("broker.sock"), Relay())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask.run)
        yield ask
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(("prompt_s", "before", "after"), [(60.0, [1], [1, 11]), (0.0, [1, 1], [1, 1, 10])])
async def test_the_first_leaves_at_once_and_what_waits_goes_together(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, prompt_s: float, before: list[int], after: list[int]
) -> None:
    monkeypatch.setattr(asking, "_PROMPT_S", prompt_s)
    broker.go = anyio.Event()
    async with running() as ask, anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(ask, _ask("run-one", number))
            await anyio.wait_all_tasks_blocked()
        assert [len(frame) for frame in broker.frames] == before
        broker.go.set()
    assert [len(frame) for frame in broker.frames] == after
    assert [one.call for frame in broker.frames for one in frame] == [f"c{number}" for number in range(12)]


async def test_a_busy_session_keeps_no_other_waiting(broker: Broker) -> None:
    broker.go = anyio.Event()
    async with running() as ask, anyio.create_task_group() as tasks:
        for number in range(200):
            tasks.start_soon(ask, _ask("run-busy", number))
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(ask, _ask("run-other", 0))
        await anyio.wait_all_tasks_blocked()
        broker.go.set()
    before = [one.session for frame in broker.frames for one in frame].index("run-other")
    assert before <= 16
    assert max(map(len, broker.frames)) <= MOST_ASKS
    assert broker.asked("run-busy") == 200


async def test_many_sessions_fill_frames_and_no_more(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_PROMPT_S", 60.0)
    broker.go = anyio.Event()
    async with running() as ask, anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(ask, _ask(f"run-{number}", 0))
        await anyio.wait_all_tasks_blocked()
        broker.go.set()
    assert list(map(len, broker.frames)) == [1, 32, 32, 32, 3]


async def test_a_frame_that_takes_long_holds_nobody_back(broker: Broker) -> None:
    broker.go = anyio.Event()
    async with running() as ask, anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(ask, _ask("run-one", number))
        for _ in range(500):
            if len(broker.frames) == 2:
                break
            await anyio.sleep(0.01)
        assert [len(frame) for frame in broker.frames] == [1, 2]
        broker.go.set()


@given(st.data())
def test_each_is_answered_once_with_its_own_whoever_leaves(data: st.DataObject) -> None:
    sessions = data.draw(st.lists(st.sampled_from(["run-a", "run-b", "run-c"]), min_size=1, max_size=60))
    leaving = data.draw(st.sets(st.integers(0, len(sessions) - 1)))
    random_ = data.draw(st.randoms(use_true_random=False))
    anyio.run(_played, sessions, leaving, random_)


async def _played(sessions: list[str], leaving: set[int], random_: random.Random) -> None:
    broker = Broker()
    broker.wait_s = [random_.choice((0.0, 0.001, 0.002)) for _ in sessions]
    broker.failing = {f"c{number}" for number in range(len(sessions)) if random_.random() < 0.1}
    unwritable = {number for number in range(len(sessions)) if random_.random() < 0.1}
    told: dict[int, str] = {}

    async def one(number: int) -> None:
        await anyio.sleep(random_.choice((0.0, 0.0, 0.001, 0.003)))
        with anyio.CancelScope() as scope:
            if number in leaving:
                scope.deadline = anyio.current_time() + random_.choice((0.0, 0.001, 0.002))
            try:
                found = (await ask(_ask(sessions[number], number, "\ud800" if number in unwritable else ""))).reasons[0]
            except Fault as fault:
                found = f"{fault.code} {fault.message}"
            except UnicodeEncodeError:
                found = "unwritable"
            assert number not in told
            told[number] = found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "call", broker.call)
        async with running() as ask, anyio.create_task_group() as tasks:
            for number in range(len(sessions)):
                tasks.start_soon(one, number)
    for number, found in told.items():
        own = f"c{number}"
        decided = f"policy-invalid {own}" if own in broker.failing else f"{sessions[number]} {own}"
        assert found == ("unwritable" if number in unwritable else decided)
    assert set(range(len(sessions))) - set(told) <= leaving
    asked = [one.call for frame in broker.frames for one in frame]
    assert len(asked) == len(set(asked))


async def test_a_brokerd_that_does_not_answer_fails_the_questions_of_that_frame_alone(broker: Broker) -> None:
    broker.fault = Fault("brokerd-unreachable")
    async with running() as ask:
        with pytest.raises(Fault) as caught:
            await ask(_ask("run-one", 1))
        assert caught.value.code == "brokerd-unreachable"
        broker.fault = None
        assert (await ask(_ask("run-one", 2))).allow


async def test_what_fails_on_the_way_to_brokerd_fails_the_questions_of_that_frame_alone(broker: Broker) -> None:
    broker.go, broker.fault = anyio.Event(), OSError("no file is left")
    codes: list[str] = []

    async def one(number: int) -> None:
        with pytest.raises(Fault) as caught:
            await ask(_ask("run-one", number))
        codes.append(caught.value.code)

    async with running() as ask:
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(one, number)
                await anyio.wait_all_tasks_blocked()
            broker.go.set()
        assert codes == ["internal"] * 5
        broker.fault = None
        assert (await ask(_ask("run-one", 5))).allow


async def test_a_frame_takes_as_many_as_it_holds(broker: Broker) -> None:
    broker.go = anyio.Event()
    large = dict.fromkeys((2, 3, 4, 5), 300_000) | {6: frame.MAX_FRAME}
    failed: list[tuple[int, str]] = []

    async def one(number: int) -> None:
        named = ["x" * large.get(number, 1)]
        try:
            await ask(msgspec.structs.replace(_ask("run-one", number), hosted_tools=named))
        except Fault as fault:
            failed.append((number, fault.code))

    async with running() as ask, anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(one, number)
            await anyio.wait_all_tasks_blocked()
        broker.go.set()
    assert [[ask.call for ask in asks] for asks in broker.frames] == [
        ["c0"], ["c1"], ["c2", "c3", "c4"], ["c5"], ["c7", "c8", "c9"],
    ]  # fmt: skip
    assert failed == [(6, "frame-too-large")]


async def test_who_is_refused_on_and_on_is_asked_about_slowly_until_one_is_allowed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def many(session: str) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(ask, _ask(session, number))

    monkeypatch.setattr(asking, "_HESITATION_S", 0.05)
    monkeypatch.setattr(asking, "_MOST_REFUSED", 20)
    broker.denied = {"run-bad"}
    async with running() as ask:
        with anyio.move_on_after(0.4) as scope:
            await many("run-bad")
        assert scope.cancelled_caught
        assert 20 <= broker.asked("run-bad") <= 50
        await many("run-good")
        assert broker.asked("run-good") == 100
        broker.denied.clear()
        await many("run-bad")
        assert broker.asked("run-bad") >= 120
