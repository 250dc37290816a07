"""The turn as a state machine: events in, commands out, no I/O.

    BEGIN ── Said, Resumed ──▶ MODEL ── Answered, with calls ──▶ TOOL ── last ToolAnswered ──▶ MODEL …
                                 └── Answered, without calls; Failed; Cancelled ──▶ OVER

Laws (tested over random scripts): every call that is appended gets exactly one result before anything else is appended;
ids of calls are unique in the session; after `Finish` nothing follows; a turn ends.
"""

from collections import Counter, deque
from enum import Enum
from typing import Final

from loopd.config import Turn
from loopd.session.records import Assistant, Position, Record, ToolResult, User
from loopd.session.window import Window
from loopd.tools import own
from loopd.tools.calls import OWN, Wanted, read_all
from loopd.turn import steps
from loopd.turn.steps import Append, AskModel, CancelModel, Command, Deny, Emit, Event, Finish, RunTool
from proto.canon import compact
from proto.escape import clip
from proto.faults import FAULTS
from proto.labels import PRIVATE, PUBLIC, Label, covers, join
from proto.messages.loop import ChatApproval, ChatDelta, ChatLabel, ChatTool
from proto.role.clock import Clock, stamp

STOPPED_CALL: Final = "interrupted: the owner stopped the turn before this call was made"
NOT_MADE: Final = "not run: the turn ends here; answer the owner now, without tools"
SAME_AGAIN: Final = "(the same call has been refused {count} times and is not made again; answer the owner without it)"
LAST_ROUND: Final = "(this turn has made {count} rounds of tool calls, and may make no more; answer the owner now)"
NO_ANSWER: Final = {
    "refusals": "I could not do this: a call that I needed was refused again and again. The last refusal said: {last}",
    "rounds": "I could not finish this within the number of tool calls that one turn may make.",
}
EMPTY: Final = "the model gave an empty answer"
CUT: Final = "the model used up its output before it answered; raise max_output_tokens in loopd.toml"
WITHHELD: Final = "the provider withheld the answer (content_filter)"
NOT_WHOLE: Final = "the answer was cut: the model's limit of output was reached"
NOT_SHOWN: Final = "the answer was cut: the provider withheld the rest"
_SHOWN_CHARS: Final = 500


class Phase(Enum):
    """What the turn waits for."""

    BEGIN = "begin"
    MODEL = "model"
    TOOL = "tool"
    OVER = "over"


class Machine:
    """One turn of one session."""

    def __init__(
        self, position: Position, number: int, window: Window, label: Label, limits: Turn, clock: Clock
    ) -> None:
        """`number` is that of the record that is appended next."""
        self.label = label
        self.window = window
        self.phase = Phase.BEGIN
        self._number = number
        self._used = set(position.used_ids)
        self._rounds = position.rounds
        self._limits = limits
        self._clock = clock
        self._queue: deque[Wanted] = deque()
        self._running: Wanted | None = None
        self._approval: str | None = None
        self._refusals: Counter[str] = Counter()
        self._last_refusal = ""
        self._final: str | None = None
        self._ending: tuple[str, str] | None = None
        self._input: int | None = None
        self._output: int | None = None

    def handle(self, event: Event) -> list[Command]:
        """What is to be done after an event.

        Raises:
            ValueError: the event does not belong to this phase; the driver is at fault.

        """
        match self.phase:
            case Phase.BEGIN:
                done = self._in_begin(event)
            case Phase.MODEL:
                done = self._in_model(event)
            case Phase.TOOL:
                done = self._in_tool(event)
            case Phase.OVER:
                done = [] if isinstance(event, steps.Stop) else None
        if done is None:
            raise ValueError(f"{type(event).__name__} in the phase {self.phase.value}")
        return done

    def _in_begin(self, event: Event) -> list[Command] | None:
        match event:
            case steps.Said():
                self._rounds = 0
                heard = [self._append(record) for record in (*event.before, self._user(event))]
                return [*heard, *self._ask()]
            case steps.Resumed():
                return self._ask()
            case _:
                return None

    def _in_model(self, event: Event) -> list[Command] | None:
        match event:
            case steps.Answered():
                return self._answered(event)
            case steps.Failed(code, message):
                return self._finish(code, message)
            case steps.Cancelled(content):
                return self._cancelled(content)
            case steps.Stop():
                # The whole answer may come before the cancel: then its calls are not made.
                self._stop()
                return [CancelModel()]
            case _:
                return None

    def _in_tool(self, event: Event) -> list[Command] | None:
        match event:
            case steps.ApprovalAsked():
                return self._approval_asked(event)
            case steps.ToolAnswered(ok, text, label):
                return [*self._result(self._take_running(), text, label, ok=ok), *self._next()]
            case steps.ToolFailed():
                return self._tool_failed(event)
            case steps.Stop():
                return self._stop_tools()
            case _:
                return None

    def _user(self, said: steps.Said) -> User:
        if said.label is None:
            return User(time=self._now(), text=said.text, author=said.author)
        label = said.label
        return User(
            time=self._now(), text=said.text, author=said.author, class_=label.class_, untrusted=label.untrusted
        )

    # The model.

    def _ask(self) -> list[Command]:
        if self.window.room < 0:
            return self._finish("session-full", FAULTS["session-full"].sentence)
        if self._rounds >= self._limits.rounds:
            self._final = self._final or "rounds"
        self.phase = Phase.MODEL
        return [AskModel(final=self._final is not None)]

    def _answered(self, answer: steps.Answered) -> list[Command]:
        self._count(answer)
        reasoning = answer.reasoning or None
        if answer.calls and self._final is None:
            self._rounds += 1
            wanted = read_all(answer.calls, self._used, self._number)
            calls = [one.call for one in wanted]
            self._used.update(call.id for call in calls)
            self._queue.extend(wanted)
            content = answer.content or None
            spoken = Assistant(time=self._now(), content=content, tool_calls=calls, reasoning_content=reasoning)
            return [self._append(spoken), *self._next()]
        text, note = answer.content, _note(answer.finish)
        if not text.strip():
            note = None
            if self._final is None:
                return self._finish("model-error", _why_empty(answer.finish))
            # The model was told to answer and did not: the owner gets an answer all the same.
            text = NO_ANSWER[self._final].format(last=clip(self._last_refusal, _SHOWN_CHARS))
        spoken = Assistant(time=self._now(), content=text, tool_calls=[], reasoning_content=reasoning)
        if note is None:
            return [self._append(spoken), *self._finish(None, text)]
        # The log keeps the model's own words; the owner is told that they are not all.
        return [self._append(spoken), Emit(ChatDelta(text=note)), *self._finish(None, text + note)]

    def _count(self, answer: steps.Answered) -> None:
        if answer.input_tokens is not None:
            self._input = (self._input or 0) + answer.input_tokens
            self.window = self.window.counted(answer.input_tokens)
        if answer.output_tokens is not None:
            self._output = (self._output or 0) + answer.output_tokens

    def _cancelled(self, content: str) -> list[Command]:
        stopped = self._finish("turn-stopped", FAULTS["turn-stopped"].sentence)
        if not content.strip():
            return stopped
        # The owner has read these words: they stay, and the next turn can go on from them.
        spoken = Assistant(time=self._now(), content=content, tool_calls=[])
        return [self._append(spoken), *stopped]

    # The tools.

    def _next(self) -> list[Command]:
        """Go on with the calls of the message, up to one that brokerd must decide, or to the next question."""
        done: list[Command] = []
        while self._queue:
            wanted = self._queue.popleft()
            done.append(Emit(_tool(wanted, "running", "")))
            if (instead := self._instead(wanted)) is None:
                self._running = wanted
                self.phase = Phase.TOOL
                return [*done, RunTool(wanted)]
            done += self._result(wanted, *instead)
        if self._ending is not None:
            return [*done, *self._finish(*self._ending)]
        return [*done, *self._ask()]

    def _instead(self, wanted: Wanted) -> tuple[str, Label, bool] | None:
        """The result of a call that is not brokerd's to decide: text, label, ok."""
        if self._ending is not None:
            return STOPPED_CALL if self._ending[0] == "turn-stopped" else NOT_MADE, self.label, False
        if self._final is not None:
            return NOT_MADE, PRIVATE, False
        if wanted.refused is not None:
            return wanted.refused, PRIVATE, False
        if wanted.tool in OWN:
            try:
                return own.answer(wanted.tool, wanted.arguments, self._clock()), PUBLIC, True
            except ValueError as error:
                return str(error), PRIVATE, False
        return None

    def _result(self, wanted: Wanted, text: str, label: Label, ok: bool) -> list[Command]:
        told = self._told(wanted, text, ok=ok)
        kept = self.window.clip_result(text, self._limits.result_bytes)
        record = ToolResult(
            time=self._now(),
            call=wanted.call.id,
            name=wanted.call.name,
            content=f"{kept} {told}" if told else kept,
            class_=label.class_,
            untrusted=label.untrusted,
        )
        done: list[Command] = [self._append(record), Emit(_tool(wanted, "ok" if ok else "refused", text))]
        if not covers(self.label, label):
            self.label = join(self.label, label)
            done.append(Emit(ChatLabel(class_=self.label.class_, untrusted=self.label.untrusted)))
        return done

    def _told(self, wanted: Wanted, text: str, ok: bool) -> str | None:
        """What the model is told beside a result that is the last of its turn: too many refusals, too many rounds."""
        if self._final is not None or self._ending is not None:
            return None
        if not ok:
            self._last_refusal = text
            self._refusals[wanted.key] += 1
        if (count := self._refusals[wanted.key]) >= self._limits.refusals:
            self._final = "refusals"
            return SAME_AGAIN.format(count=count)
        if not self._queue and self._rounds >= self._limits.rounds:
            self._final = "rounds"
            return LAST_ROUND.format(count=self._rounds)
        return None

    def _tool_failed(self, failed: steps.ToolFailed) -> list[Command]:
        if failed.ends_turn:
            self._ending = self._ending or (failed.code, failed.message)
        return [*self._result(self._take_running(), failed.message, self.label, ok=False), *self._next()]

    def _approval_asked(self, asked: steps.ApprovalAsked) -> list[Command]:
        if self._running is None:
            raise ValueError("an approval without a call")
        if self._ending is not None:
            return [Deny(asked.approval)]
        self._approval = asked.approval
        event = ChatApproval(
            approval=asked.approval, call=self._running.call.id, text=asked.text, expires=asked.expires
        )
        return [Emit(event)]

    def _stop_tools(self) -> list[Command]:
        """End after the call that runs: what it does is done. One that waits for the owner is denied."""
        self._stop()
        approval, self._approval = self._approval, None
        return [Deny(approval)] if approval else []

    def _stop(self) -> None:
        self._ending = self._ending or ("turn-stopped", FAULTS["turn-stopped"].sentence)

    def _take_running(self) -> Wanted:
        wanted, self._running, self._approval = self._running, None, None
        if wanted is None:
            raise ValueError("a result without a call")
        return wanted

    # Both.

    def _append(self, record: Record) -> Append:
        self._number += 1
        self.window = self.window.with_record(record)
        return Append(record)

    def _finish(self, code: str | None, text: str) -> list[Command]:
        self.phase = Phase.OVER
        return [Finish(code, text, self._input, self._output)]

    def _now(self) -> str:
        return stamp(self._clock())


def _why_empty(finish: str) -> str:
    return {"length": CUT, "content_filter": WITHHELD}.get(finish, EMPTY)


def _note(finish: str) -> str | None:
    """What follows the words of an answer that is not whole."""
    sentence = {"length": NOT_WHOLE, "content_filter": NOT_SHOWN}.get(finish)
    return f"\n\n({sentence})" if sentence else None


def _tool(wanted: Wanted, state: str, text: str) -> ChatTool:
    return ChatTool(
        call=wanted.call.id,
        tool=clip(wanted.tool, 64),
        arguments=clip(compact(wanted.arguments), _SHOWN_CHARS),
        state=state,  # type: ignore[arg-type]
        text=clip(text, _SHOWN_CHARS),
    )
