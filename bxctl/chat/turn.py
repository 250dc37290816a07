"""One turn: what was said goes to loopd, its events go to a view, approvals are answered in place, ^C stops it.

An approval is asked while the stream is read on: it may be answered elsewhere, or lapse, and the question goes away.
"""

import asyncio
import signal
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from bxctl.chat.view import EVENTS, Event, View
from bxctl.places import Box, Unreachable
from proto.faults import Fault
from proto.messages import loop
from proto.messages.broker import ApprovalAnswer
from proto.messages.wire import Ok
from proto.role.call import call, stream

_ROW = "owner-loop"
_ASK_SECONDS = 30.0
_AGAIN_SECONDS = 1.0
_NOT_THERE = "brokerd-unreachable"


class Left(Exception):
    """The owner pressed ^C a second time: the turn goes on without anybody watching."""


class Turn:
    """A turn of a session; `session` is None for a new one, and known once the first event has come."""

    def __init__(self, box: Box, session: str | None, view: View) -> None:
        self.session = session
        self._box = box
        self._path = box.socket(_ROW)
        self._view = view
        self._stops = 0
        self._heard = False
        self._over = False
        self._left = asyncio.Event()
        self._errands: set[asyncio.Task[None]] = set()

    async def say(self, text: str) -> loop.ChatDone | loop.ChatFailed:
        """Say something; how the turn ended, its events shown.

        Raises:
            Fault: `peer-unreachable`: loopd does not answer, or hung up before the end; what loopd refuses.
            Left: ^C was pressed twice.

        """
        before = _on_interrupt(self._interrupted)
        try:
            asked = loop.Chat(session=self.session, text=text)
            async with stream(self._path, asked, *EVENTS, timeout_s=None) as answers:
                events = _Ahead(answers)
                try:
                    return await self._to_the_end(events)
                finally:
                    await events.close()
        except Fault as fault:
            raise self._told(fault) from None
        finally:
            _restore_interrupt(before)
            self._over = True
            for errand in self._errands:
                with suppress(Fault):
                    await errand

    async def _to_the_end(self, events: "_Ahead") -> loop.ChatDone | loop.ChatFailed:
        while True:
            event = await events.next_or(self._left)
            if event is None:
                raise Left
            self._heard = True
            if isinstance(event, loop.ChatOpened):
                self.session = event.session
            if isinstance(event, loop.ChatApproval):
                await self._settle(event, events)
                continue
            self._view.show(event)
            if isinstance(event, loop.ChatDone | loop.ChatFailed):
                return event

    async def _settle(self, wanted: loop.ChatApproval, events: "_Ahead") -> None:
        """Ask the owner; give up when the call is decided meanwhile. Other events wait until the question is gone."""
        self._view.show(wanted)
        asking = asyncio.ensure_future(self._view.approve(wanted))
        decided = asyncio.ensure_future(events.until(lambda event: _settles(event, wanted)))
        await asyncio.wait({asking, decided}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            self._view.withdraw()
        allow = await asking
        decided.cancel()
        with suppress(asyncio.CancelledError):
            await decided
        if allow is not None:
            self._errands.add(asyncio.ensure_future(self._hand_on(wanted.approval, allow=allow)))

    async def _hand_on(self, approval: str, *, allow: bool) -> None:
        """Have the owner's answer taken; while brokerd is away the call waits, and so does its answer."""
        answer = ApprovalAnswer(approval=approval, allow=allow, by="chat")
        while not self._over:
            try:
                await call(self._path, answer, Ok, timeout_s=_ASK_SECONDS)
            except Fault as fault:
                if fault.code == _NOT_THERE:
                    await asyncio.sleep(_AGAIN_SECONDS)
                    continue
                # Answered elsewhere in the same moment: what came of it is on its way.
            return

    def _interrupted(self) -> None:
        self._stops += 1
        self._view.stopping()
        if self._stops > 1 or self.session is None:
            self._left.set()
            return
        self._errands.add(asyncio.ensure_future(self._stop(self.session)))

    async def _stop(self, session: str) -> None:
        with suppress(Fault):
            await call(self._path, loop.ChatStop(session=session), Ok, timeout_s=_ASK_SECONDS)

    def _told(self, fault: Fault) -> Fault:
        if fault.code != Unreachable.CODE:
            return fault
        if not self._heard or self.session is None:
            return Unreachable(self._box, _ROW)
        goes_on = self._box.command("chat", "--session", self.session)
        return Fault(fault.code, f"loopd hung up; it ends the turn when it is back: {goes_on}")


class _Ahead:
    """The events of a turn, of which some can be read ahead and are kept for later."""

    def __init__(self, events: AsyncIterator[Any]) -> None:
        self._events = events
        self._kept: deque[Event] = deque()
        self._reading: asyncio.Task[Event] | None = None

    async def next_or(self, left: asyncio.Event) -> Event | None:
        """The next event; None when `left` is set before it comes."""
        if self._kept:
            return self._kept.popleft()
        reading = self._read()
        leaving = asyncio.ensure_future(left.wait())
        try:
            await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
        if not reading.done():
            return None
        self._reading = None
        return reading.result()

    async def until(self, found: Any) -> None:
        """Read ahead until an event of which `found` is true was kept; can be cancelled at any time."""
        while True:
            reading = self._read()
            await asyncio.wait({reading})
            self._reading = None
            self._kept.append(reading.result())
            if found(self._kept[-1]):
                return

    async def close(self) -> None:
        """End the read that is under way."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    def _read(self) -> "asyncio.Task[Event]":
        """The one read that is under way."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._one())
        return self._reading

    async def _one(self) -> Event:
        try:
            event: Event = await anext(self._events)
        except StopAsyncIteration:
            raise Fault("peer-unreachable", "the daemon hung up") from None
        return event


def _settles(event: Event, wanted: loop.ChatApproval) -> bool:
    ended = isinstance(event, loop.ChatDone | loop.ChatFailed)
    return ended or (isinstance(event, loop.ChatTool) and event.call == wanted.call and event.state != "running")


def _on_interrupt(interrupted: Any) -> Any:
    """Hear SIGINT; what heard it before."""
    before = signal.getsignal(signal.SIGINT)
    with suppress(ValueError, RuntimeError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted)
    return before


def _restore_interrupt(before: Any) -> None:
    with suppress(ValueError, RuntimeError):
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
