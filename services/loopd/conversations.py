"""All sessions of the box: who is in a turn, how one begins, how one is resumed after a crash, how it ends.

A turn runs in the daemon's own task group, so that a client that goes away does not stop it. One turn at a time in a
session; another text meanwhile is refused (`session-busy`).
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream

from loopd.config import Config
from loopd.ports.all import Ports
from loopd.ports.notices import Notices
from loopd.session import window
from loopd.session.baseline import Baseline, Origin, context_tokens
from loopd.session.marks import FULL, Marks
from loopd.session.records import Assistant, User
from loopd.session.store import Loaded, Store
from loopd.session.window import Window, record_tokens
from loopd.turn import traced
from loopd.turn.driver import Driver
from loopd.turn.machine import Machine
from loopd.turn.opening import Opened, Opening
from loopd.turn.steps import Finish, Resumed, Said
from proto.faults import FAULTS, Fault
from proto.labels import Label
from proto.messages.loop import ChatDone, ChatFailed, ChatOpened
from proto.role import trace
from proto.role.clock import Clock
from proto.role.log import logger

RESUMES: Final = 3
"""A turn is resumed so many times at most: one that ends the daemon must not end it at every start."""
TRANSIENT: Final = frozenset({"brokerd-unreachable", "model-unavailable", "upstream-unreachable", "busy"})
"""Codes after which a resumed turn waits and tries again: no daemon waits for another at start."""
STATE_LOST: Final = "session-state-lost"
_FIRST_WAIT_SECONDS: Final = 2.0
_LONGEST_WAIT_SECONDS: Final = 60.0
_RESUMES_AT_ONCE: Final = 4

Emitter = Callable[[msgspec.Struct], None]


def _kept_by_nobody(record: int, before: tuple[User, ...]) -> None:
    """A terminal's text is not kept beside the log."""


class Message(NamedTuple):
    """What is said in a session. `labels` are joined into the session's first, in a session that is there or new.

    `keep` is told, before anything is logged, the number that the record of `said` gets, and what of `said.before`
    finds room ahead of it.
    """

    said: Said
    labels: tuple[Label, ...] = ()
    keep: Callable[[int, tuple[User, ...]], None] = _kept_by_nobody


class Conversations:
    """The one place that knows which sessions are in a turn."""

    def __init__(self, store: Store, marks: Marks, ports: Ports, config: Config, clock: Clock) -> None:
        self.store = self._store = store
        self._marks = marks
        self._ports = ports
        self._notices = Notices(ports.memory.updated)
        self._config = config
        self._clock = clock
        self._opening = Opening(store, ports.memory, ports.broker, config, clock)
        self._busy: dict[str, anyio.Event] = {}
        self._lost: set[str] = set()
        self._windows: dict[str, tuple[int, Window]] = {}

    def chat(
        self, tasks: anyio.abc.TaskGroup, session: str | None, text: str
    ) -> MemoryObjectReceiveStream[msgspec.Struct]:
        """Begin a turn in `tasks`; its events, of which the last is a `ChatDone` or a `ChatFailed`."""
        return self._begun(tasks, lambda emit: self._chat(tasks, session, Message(Said(text)), emit))

    def say(
        self, tasks: anyio.abc.TaskGroup, origin: Origin, message: Message
    ) -> MemoryObjectReceiveStream[msgspec.Struct]:
        """As `chat`, in the session of that id, which is begun if it is not there."""
        return self._begun(tasks, lambda emit: self._chat(tasks, origin, message, emit))

    def go_on(
        self, tasks: anyio.abc.TaskGroup, session: str, *, again: bool
    ) -> MemoryObjectReceiveStream[msgspec.Struct]:
        """Take up the turn that a session's log ends in; the events as of `chat`, at once if it is over.

        One that failed is over, unless it is asked for `again`.
        """
        return self._begun(tasks, lambda emit: self._go_on(tasks, session, emit, again=again))

    def _begun(
        self, tasks: anyio.abc.TaskGroup, turn: Callable[[Emitter], Awaitable[ChatDone | ChatFailed]]
    ) -> MemoryObjectReceiveStream[msgspec.Struct]:
        sender, receiver = anyio.create_memory_object_stream[msgspec.Struct](float("inf"))

        def emit(message: msgspec.Struct) -> None:
            try:
                sender.send_nowait(message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                # Nobody listens any more; the turn goes on.
                return

        async def run() -> None:
            with sender:
                with trace.span(traced.NAME):
                    last = await turn(emit)
                emit(last)

        tasks.start_soon(run)
        return receiver

    def stop(self, session: str) -> None:
        """End the turn of a session, if there is one, at the next safe point.

        Raises:
            Fault: `session-unknown`.

        """
        if not self._store.exists(session):
            raise Fault("session-unknown", f"there is no session {session}")
        if stop := self._busy.get(session):
            stop.set()

    def state(self, session: str) -> Literal["open", "busy", "full", "lost"]:
        """What a session can do now; that it is damaged is seen in its log."""
        if session in self._busy:
            return "busy"
        if session in self._lost:
            return "lost"
        return "full" if self._marks.is_full(session) else "open"

    async def resume_all(self, but: str | None = None) -> None:
        """Go on with every turn that a crash left without an answer.

        Sessions whose ids begin with `but` are left to the channel that they belong to.
        """
        limiter = anyio.CapacityLimiter(_RESUMES_AT_ONCE)
        found = await anyio.to_thread.run_sync(self._unfinished)
        unfinished = [session for session in found if but is None or not session.startswith(but)]
        async with anyio.create_task_group() as tasks:
            for session in unfinished:
                tasks.start_soon(self._resume, tasks, session, limiter)

    def _unfinished(self) -> list[str]:
        return [session for session in self._store.ids() if not self._store.is_finished(session)]

    # A turn that somebody began.

    async def _chat(
        self, tasks: anyio.abc.TaskGroup, where: str | Origin | None, message: Message, emit: Emitter
    ) -> ChatDone | ChatFailed:
        text = message.said.text
        session = known = where.session if isinstance(where, Origin) else where
        try:
            self._check_text(text)
            if session is None:
                opened = await self._opening.new(lambda baseline: self._check_fits(baseline, text))
                known = opened.loaded.baseline.session
                with self._held(known) as stop:
                    return await self._say(tasks, opened, message, emit, stop, new=True)
            with self._held(session) as stop:
                if isinstance(where, Origin) and not self._store.exists(session):
                    opened = await self._opening.begin(where, lambda baseline: self._check_fits(baseline, text))
                    return await self._say(tasks, opened, message, emit, stop, new=True)
                if self._marks.is_full(session):
                    raise Fault(FULL)
                return await self._say(tasks, await self._resumed(session), message, emit, stop, new=False)
        except Fault as fault:
            return _failed(known, fault)
        except Exception:  # noqa: BLE001  (whatever a turn does, the daemon lives and its client is told)
            logger().exception("turn-failed", session=known)
            return _failed(known, Fault("internal"))

    async def _say(
        self,
        tasks: anyio.abc.TaskGroup,
        opened: Opened,
        message: Message,
        emit: Emitter,
        stop: anyio.Event,
        *,
        new: bool,
    ) -> ChatDone | ChatFailed:
        baseline = opened.loaded.baseline
        said = message.said
        for label in message.labels:
            # Before the text that raises it is logged, or sent to a model.
            opened = await self._opening.raised(opened, label)
        emit(
            ChatOpened(
                session=baseline.session,
                new=new,
                destination=baseline.destination,
                model=baseline.model,
                class_=opened.label.class_,
                untrusted=opened.label.untrusted,
            )
        )
        room = self._window(opened.loaded)
        before = _fitting(said.before, room.room - _tokens_of(said.text))
        said = said._replace(before=before)
        if room.room < _tokens_of(said.text):
            self._check_fits(baseline, said.text)
            self._marks.end(baseline.session, len(opened.loaded.records), FULL)
            await self._ports.broker.close(baseline.session)
            raise Fault(FULL)
        driver, machine = self._turn(opened, room, emit)
        record = len(opened.loaded.records) + len(before)
        message.keep(record, before)
        finish = await driver.run(said, stop)
        self._settle(baseline.session, driver, machine, record, finish.code)
        return await self._told(tasks, baseline.session, driver, finish)

    def _turn(self, opened: Opened, room: Window, emit: Emitter) -> tuple[Driver, Machine]:
        loaded, label = opened
        trace.say(traced.of_session(loaded.baseline))
        machine = Machine(loaded.position, len(loaded.records), room, label, self._config.turn, self._clock)
        ports = (self._ports.broker, self._ports.model)
        return Driver(loaded, machine, self._store, ports, self._config.model, emit), machine

    def _settle(self, session: str, driver: Driver, machine: Machine, record: int, code: str | None) -> None:
        """Keep what is known after a turn; `record` is the number of the user's record that it answers."""
        self._windows[session] = (driver.count, machine.window)
        if driver.is_answered:
            self._marks.clear(session)
        elif code is not None:
            self._marks.end(session, record, code)

    async def _told(
        self, tasks: anyio.abc.TaskGroup, session: str, driver: Driver, finish: Finish
    ) -> ChatDone | ChatFailed:
        """The last event of a turn; memoryd is told first, so that the next session can recall this one at once."""
        if driver.is_answered:
            await self._notices.tell(tasks, session)
        if finish.code == FULL:
            await self._ports.broker.close(session)
        if finish.code is not None:
            trace.fail(finish.code)
            runbook = FAULTS[finish.code].runbook
            return ChatFailed(session=session, code=finish.code, message=finish.text, runbook=runbook)
        return ChatDone(
            session=session, text=finish.text, input_tokens=finish.input_tokens, output_tokens=finish.output_tokens
        )

    # A turn that a crash left.

    async def _go_on(
        self, tasks: anyio.abc.TaskGroup, session: str, emit: Emitter, *, again: bool
    ) -> ChatDone | ChatFailed:
        try:
            with self._held(session) as stop:
                opened = await self._resumed(session)
                records, where = opened.loaded.records, opened.loaded.position
                last = records[-1] if records else None
                if isinstance(last, Assistant) and where.answered:
                    return ChatDone(session=session, text=last.content or "", input_tokens=None, output_tokens=None)
                mark = self._marks.get(session)
                if mark.record == where.last_user and mark.ended and not again:
                    raise Fault(mark.ended)
                if where.last_user is None or (mark.record == where.last_user and mark.attempts >= RESUMES):
                    raise Fault("internal", "the turn ended the daemon again and again, and is not tried any more")
                self._marks.attempt(session, where.last_user)
                driver, machine = self._turn(opened, self._window(opened.loaded), emit)
                finish = await driver.run(Resumed(), stop)
                self._settle(session, driver, machine, where.last_user, finish.code)
                return await self._told(tasks, session, driver, finish)
        except Fault as fault:
            return _failed(session, fault)
        except Exception:  # noqa: BLE001  (as for a turn that somebody began)
            logger().exception("turn-failed", session=session)
            return _failed(session, Fault("internal"))

    async def _resume(self, tasks: anyio.abc.TaskGroup, session: str, limiter: anyio.CapacityLimiter) -> None:
        wait_s = _FIRST_WAIT_SECONDS
        while session not in self._busy:
            try:
                async with limiter:
                    with trace.span(traced.NAME):
                        code, again = await self._resume_once(tasks, session)
            except Fault as fault:
                code, again = fault.code, fault.code in TRANSIENT
            except Exception:  # noqa: BLE001  (one session must not keep the others from being resumed)
                logger().exception("resume-failed", session=session)
                return
            if code is not None:
                logger().warning("turn-not-resumed", session=session, code=code, again=again)
            if not again:
                return
            await anyio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_SECONDS)

    async def _resume_once(self, tasks: anyio.abc.TaskGroup, session: str) -> tuple[str | None, bool]:
        """Take one session up again; the code with which it was not answered, and whether to try again."""
        with self._held(session) as stop:
            opened = await self._resumed(session)
            where = opened.loaded.position
            mark = self._marks.get(session)
            told = mark.record == where.last_user and (mark.ended or mark.attempts >= RESUMES)
            if where.answered or where.last_user is None or told:
                return None, False
            before = self._marks.attempt(session, where.last_user)
            driver, machine = self._turn(opened, self._window(opened.loaded), _nobody)
            finish = await driver.run(Resumed(), stop)
            again = finish.code in TRANSIENT and before + 1 < RESUMES
            self._settle(session, driver, machine, where.last_user, None if again else finish.code)
            await self._told(tasks, session, driver, finish)
            return finish.code, again

    # Both.

    async def _resumed(self, session: str) -> Opened:
        try:
            opened = await self._opening.resume(session)
        except Fault as fault:
            if fault.code == STATE_LOST:
                self._lost.add(session)
            raise
        self._lost.discard(session)
        return opened

    @contextmanager
    def _held(self, session: str) -> Iterator[anyio.Event]:
        if session in self._busy:
            raise Fault("session-busy")
        stop = self._busy[session] = anyio.Event()
        try:
            yield stop
        finally:
            del self._busy[session]

    def _window(self, loaded: Loaded) -> Window:
        """The room of a session: as the model counted it in this process, or estimated."""
        count, kept = self._windows.get(loaded.baseline.session, (-1, None))
        if kept is not None and count == len(loaded.records):
            return kept
        return self._estimated(loaded.baseline, loaded)

    def _estimated(self, baseline: Baseline, loaded: Loaded | None) -> Window:
        model = self._config.model
        context = context_tokens(baseline, model)
        return window.opened(baseline, loaded.records if loaded else [], context, model.max_output_tokens)

    def _check_text(self, text: str) -> None:
        limit = self._config.turn.text_bytes
        if not text.strip():
            raise Fault("text-empty")
        if (size := len(text.encode())) > limit:
            raise Fault("text-too-long", f"the text has {size:,} bytes; one message may have {limit:,}")

    def _check_fits(self, baseline: Baseline, text: str) -> None:
        """Refuse a text that would not fit an empty session either."""
        empty = self._estimated(baseline, None)
        if empty.room < _tokens_of(text):
            fits = f"the text does not fit the model's context of {empty.context:,} tokens"
            raise Fault("text-too-long", fits)


def _fitting(before: tuple[User, ...], room: int) -> tuple[User, ...]:
    """The last of some records, as many as take no more than half of a room: the turn needs the rest."""
    kept, left = [], room // 2
    for record in reversed(before):
        left -= record_tokens(record)
        if left < 0:
            break
        kept.append(record)
    return tuple(reversed(kept))


def _nobody(message: msgspec.Struct) -> None:
    """Nobody listens to a turn that is resumed."""


def _tokens_of(text: str) -> int:
    return record_tokens(User(time="", text=text, author=None))


def _failed(session: str | None, fault: Fault) -> ChatFailed:
    trace.fail(fault.code)
    return ChatFailed(session=session, code=fault.code, message=fault.message, runbook=fault.runbook)
