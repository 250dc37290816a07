"""Playbooks of a turn: each event, and exactly what is to be done after it; then its laws over random scripts."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopd.config import Turn
from loopd.session.records import Assistant, Call, Record, ToolResult, User, position
from loopd.session.window import Window
from loopd.tools.calls import RawCall
from loopd.turn import machine as turn
from loopd.turn.machine import Machine
from loopd.turn.steps import (
    Answered,
    Append,
    ApprovalAsked,
    AskModel,
    Cancelled,
    CancelModel,
    Command,
    Deny,
    Emit,
    Event,
    Failed,
    Finish,
    Resumed,
    RunTool,
    Said,
    Stop,
    ToolAnswered,
    ToolFailed,
)
from proto.labels import PRIVATE, DataClass, Label
from proto.messages.loop import ChatApproval, ChatDelta, ChatLabel, ChatTool

NOW = datetime(2026, 9, 24, 21, 2, 3, tzinfo=UTC)
TIME = "2026-09-24T21:02:03Z"
UNTRUSTED = Label(DataClass.PRIVATE, untrusted=True)
ROOM = Window(context=100_000, output=1000, used=0)
LIMITS = Turn(rounds=4, refusals=3)
FULL = "this session is full; start a new one, and what it learned stays in memory"


def machine(records: list[Record] | None = None, window: Window = ROOM, limits: Turn = LIMITS) -> Machine:
    records = records or []
    return Machine(position(records), len(records), window, PRIVATE, limits, lambda: NOW)


def said(text: str = "hi") -> Append:
    return Append(User(time=TIME, text=text, author=None))


def answer(content: str = "", *calls: RawCall, finish: str = "stop", reasoning: str = "") -> Answered:
    return Answered(content, reasoning, calls, finish, 100, 10)


def recall(id: str = "a", query: str = "launch") -> RawCall:
    return RawCall(id, "recall", json.dumps({"query": query}))


def asks(*calls: Call, content: str | None = None) -> Append:
    return Append(Assistant(time=TIME, content=content, tool_calls=list(calls)))


def result(id: str, content: str, label: Label = PRIVATE, name: str = "recall") -> Append:
    record = ToolResult(time=TIME, call=id, name=name, content=content, class_=label.class_, untrusted=label.untrusted)
    return Append(record)


def spoken(text: str) -> Append:
    return Append(Assistant(time=TIME, content=text, tool_calls=[]))


def tool(id: str, state: Any, text: str = "", name: str = "recall", arguments: str = '{"query":"launch"}') -> Emit:
    return Emit(ChatTool(call=id, tool=name, arguments=arguments, state=state, text=text))


def play(machine: Machine, *book: Event | list[Any]) -> None:
    """Events and, after each, the commands that must follow; `RunTool` stands for any, by its call's id."""
    for event, expected in zip(book[::2], book[1::2], strict=True):
        got = machine.handle(event)  # type: ignore[arg-type]
        assert [one.wanted.call.id if isinstance(one, RunTool) else one for one in got] == expected


def test_a_question_and_its_answer() -> None:
    play(
        machine(),
        Said("hi"), [said("hi"), AskModel(final=False)],
        answer("hello"), [spoken("hello"), Finish(None, "hello", 100, 10)],
        Stop(), [],
    )  # fmt: skip


def test_calls_run_in_their_order_and_a_risen_label_is_told() -> None:
    one, two = Call("a", "recall", {"query": "launch"}), Call("b", "recall", {"query": "launch"})
    book = machine()
    play(
        book,
        Said("hi"), [said(), AskModel(final=False)],
        answer("wait", recall("a"), recall("b")), [asks(one, two, content="wait"), tool("a", "running"), "a"],
        ToolAnswered(True, "[1] x", PRIVATE), [result("a", "[1] x"), tool("a", "ok", "[1] x"), tool("b", "running"), "b"],
        ToolAnswered(True, "[1] y", UNTRUSTED), [
            result("b", "[1] y", UNTRUSTED), tool("b", "ok", "[1] y"),
            Emit(ChatLabel(class_=DataClass.PRIVATE, untrusted=True)), AskModel(final=False),
        ],
        answer("done"), [spoken("done"), Finish(None, "done", 200, 20)],
    )  # fmt: skip
    assert book.label == UNTRUSTED


def test_clock_and_find_tool_are_answered_here_public_and_trusted() -> None:
    public = Label(DataClass.PUBLIC, untrusted=False)
    time = "2026-09-24T21:02:03Z (Thursday)"
    nothing = 'refused: find_tool takes {"query": a text}'
    play(
        machine(),
        Said("hi"), [said(), AskModel(final=False)],
        answer("", RawCall("a", "clock", ""), RawCall("b", "find_tool", "{}")), [
            asks(Call("a", "clock", {}), Call("b", "find_tool", {})),
            tool("a", "running", name="clock", arguments="{}"),
            result("a", time, public, "clock"),
            tool("a", "ok", time, "clock", "{}"),
            tool("b", "running", name="find_tool", arguments="{}"),
            result("b", nothing, PRIVATE, "find_tool"),
            tool("b", "refused", nothing, "find_tool", "{}"),
            AskModel(final=False),
        ],
    )  # fmt: skip


def test_the_same_refused_call_is_stopped_and_the_owner_gets_an_answer() -> None:
    call = Call("a", "recall", {"query": "launch"})
    no = ToolAnswered(False, "refused: no grant allows this call", PRIVATE)
    book = machine(limits=Turn(rounds=24))
    play(book, Said("hi"), [said(), AskModel(final=False)])
    for number in range(2):
        made = f"call_{1 + 2 * number}_0"
        play(
            book,
            answer("", recall("")), [asks(Call(made, call.name, call.arguments)), tool(made, "running"), made],
            no, [result(made, no.text), tool(made, "refused", no.text), AskModel(final=False)],
        )  # fmt: skip
    told = f"{no.text} (the same call has been refused 3 times and is not made again; answer the owner without it)"
    other = Call("x", "recall", {"query": "else"})
    play(
        book,
        answer("", recall("a"), recall("x", "else")), [asks(call, other), tool("a", "running"), "a"],
        no, [
            result("a", told), tool("a", "refused", no.text),
            tool("x", "running", arguments='{"query":"else"}'),
            result("x", turn.NOT_MADE), tool("x", "refused", turn.NOT_MADE, arguments='{"query":"else"}'),
            AskModel(final=True),
        ],
        # A server that does not know tool_choice may give a call all the same.
        answer("", recall("b")), [
            spoken("I could not do this: a call that I needed was refused again and again. The last refusal said: " + no.text),
            Finish(None, turn.NO_ANSWER["refusals"].format(last=no.text), 400, 40),
        ],
    )  # fmt: skip


def test_different_refused_calls_are_not_the_same() -> None:
    book = machine(limits=Turn(rounds=24))
    book.handle(Said("hi"))
    for number in range(5):
        assert isinstance(book.handle(answer("", recall(f"i{number}", f"q{number}")))[-1], RunTool)
        assert book.handle(ToolAnswered(False, "refused", PRIVATE))[-1] == AskModel(final=False)


def test_the_rounds_of_a_turn_are_bounded() -> None:
    book = machine()
    book.handle(Said("hi"))
    for number in range(4):
        book.handle(answer("", recall(f"i{number}", f"q{number}")))
        done = book.handle(ToolAnswered(True, "x", PRIVATE))
    assert done[0] == result("i3", f"x {turn.LAST_ROUND.format(count=4)}")
    assert done[-1] == AskModel(final=True)
    assert book.handle(answer("so far"))[-1] == Finish(None, "so far", 500, 50)


@pytest.mark.parametrize(
    ("finish", "sentence"),
    [("stop", turn.EMPTY), ("length", turn.CUT), ("content_filter", turn.WITHHELD), ("", turn.EMPTY)],
)
def test_an_empty_answer_is_an_error_and_not_a_record(finish: str, sentence: str) -> None:
    book = machine()
    book.handle(Said("hi"))
    assert book.handle(answer(" \n", finish=finish, reasoning="hm")) == [Finish("model-error", sentence, 100, 10)]


@pytest.mark.parametrize(
    ("finish", "note"),
    [
        ("length", "\n\n(the answer was cut: the model's limit of output was reached)"),
        ("content_filter", "\n\n(the answer was cut: the provider withheld the rest)"),
    ],
)
def test_an_answer_that_was_cut_says_so_and_the_log_keeps_the_models_words(finish: str, note: str) -> None:
    book = machine()
    book.handle(Said("hi"))
    told = [spoken("one tw"), Emit(ChatDelta(text=note)), Finish(None, "one tw" + note, 100, 10)]
    assert book.handle(answer("one tw", finish=finish)) == told
    for other in ("stop", "", "eos"):
        book = machine()
        book.handle(Said("hi"))
        assert book.handle(answer("one", finish=other)) == [spoken("one"), Finish(None, "one", 100, 10)]


def test_reasoning_is_kept_and_words_beside_calls_too() -> None:
    book = machine()
    book.handle(Said("hi"))
    first = book.handle(answer("look", recall(), reasoning="hm"))[0]
    assert first == Append(
        Assistant(
            time=TIME, content="look", tool_calls=[Call("a", "recall", {"query": "launch"})], reasoning_content="hm"
        )
    )


def test_a_failed_model_ends_the_turn() -> None:
    play(
        machine(),
        Said("hi"),
        [said(), AskModel(final=False)],
        Failed("ceiling", "no"),
        [Finish("ceiling", "no", None, None)],
    )


def test_a_full_context_ends_the_turn() -> None:
    play(machine(window=Window(100, 50, 60)), Said("hi"), [said(), Finish("session-full", FULL, None, None)])


def test_a_result_is_cut_to_the_room() -> None:
    book = machine(window=Window(4096, 1024, 1000))
    book.handle(Said("hi"))
    book.handle(answer("", recall()))
    done = book.handle(ToolAnswered(True, "x" * 100_000, PRIVATE))
    assert isinstance(done[0], Append)
    assert isinstance(done[0].record, ToolResult)
    assert len(done[0].record.content) < 4100
    assert done[0].record.content.endswith("of 100,000 characters)")
    assert done[-1] == AskModel(final=False)


def test_a_stop_while_the_model_speaks_keeps_what_was_said() -> None:
    stopped = Finish("turn-stopped", "the turn was stopped", None, None)
    play(
        machine(),
        Said("hi"),
        [said(), AskModel(final=False)],
        Stop(),
        [CancelModel()],
        Cancelled("I th"),
        [spoken("I th"), stopped],
    )
    play(machine(), Said("hi"), [said(), AskModel(final=False)], Stop(), [CancelModel()], Cancelled(""), [stopped])


def test_a_stop_that_comes_with_the_whole_answer_makes_no_call() -> None:
    play(
        machine(),
        Said("hi"), [said(), AskModel(final=False)],
        Stop(), [CancelModel()],
        answer("", recall()), [
            asks(Call("a", "recall", {"query": "launch"})), tool("a", "running"),
            result("a", turn.STOPPED_CALL), tool("a", "refused", turn.STOPPED_CALL),
            Finish("turn-stopped", "the turn was stopped", 100, 10),
        ],
    )  # fmt: skip


def test_a_stop_while_a_call_runs_waits_for_it_and_makes_no_other() -> None:
    play(
        machine(),
        Said("hi"), [said(), AskModel(final=False)],
        answer("", recall("a"), recall("b")), [
            asks(Call("a", "recall", {"query": "launch"}), Call("b", "recall", {"query": "launch"})),
            tool("a", "running"), "a",
        ],
        Stop(), [],
        ToolAnswered(True, "x", UNTRUSTED), [
            result("a", "x", UNTRUSTED), tool("a", "ok", "x"),
            Emit(ChatLabel(class_=DataClass.PRIVATE, untrusted=True)),
            tool("b", "running"), result("b", turn.STOPPED_CALL, UNTRUSTED), tool("b", "refused", turn.STOPPED_CALL),
            Finish("turn-stopped", "the turn was stopped", 100, 10),
        ],
    )  # fmt: skip


def test_an_approval_is_told_and_a_stop_denies_it() -> None:
    asked = ApprovalAsked("ap-0123456789abcdef", "fetch?", "2026-09-24T22:00:00Z")
    shown = ChatApproval(approval=asked.approval, call="a", text=asked.text, expires=asked.expires)
    book = machine()
    book.handle(Said("hi"))
    book.handle(answer("", recall()))
    play(book, asked, [Emit(shown)], Stop(), [Deny(asked.approval)], Stop(), [])
    assert book.handle(ToolAnswered(False, "refused: the owner said no", PRIVATE))[-1] == Finish(
        "turn-stopped", "the turn was stopped", 100, 10
    )
    late = machine()
    late.handle(Said("hi"))
    late.handle(answer("", recall()))
    play(late, Stop(), [], asked, [Deny(asked.approval)])


def test_without_brokerd_every_call_gets_a_result_and_the_turn_ends() -> None:
    play(
        machine(),
        Said("hi"), [said(), AskModel(final=False)],
        answer("", recall("a"), recall("b")), [
            asks(Call("a", "recall", {"query": "launch"}), Call("b", "recall", {"query": "launch"})),
            tool("a", "running"), "a",
        ],
        ToolFailed("brokerd-unreachable", "gone", ends_turn=True), [
            result("a", "gone"), tool("a", "refused", "gone"),
            tool("b", "running"), result("b", turn.NOT_MADE), tool("b", "refused", turn.NOT_MADE),
            Finish("brokerd-unreachable", "gone", 100, 10),
        ],
    )  # fmt: skip


def test_a_call_that_brokerd_cannot_read_is_only_refused() -> None:
    book = machine()
    book.handle(Said("hi"))
    book.handle(answer("", recall()))
    done = book.handle(ToolFailed("frame-too-large", "the frame is longer than 1 MiB", ends_turn=False))
    assert done[0] == result("a", "the frame is longer than 1 MiB")
    assert done[-1] == AskModel(final=False)


def test_a_resumed_turn_asks_again_and_counts_its_rounds() -> None:
    records: list[Record] = [User(time=TIME, text="hi", author=None)]
    assert machine(records).handle(Resumed()) == [AskModel(final=False)]
    for number in range(4):
        records.append(Assistant(time=TIME, content=None, tool_calls=[Call(f"c{number}", "clock", {})]))
        records.append(
            ToolResult(time=TIME, call=f"c{number}", name="clock", content="", class_=DataClass.PUBLIC, untrusted=False)
        )
    assert machine(records).handle(Resumed()) == [AskModel(final=True)]
    assert machine(records).handle(Said("next"))[-1] == AskModel(final=False)


@pytest.mark.parametrize("event", [Resumed(), Said("x"), ToolAnswered(True, "", PRIVATE), Failed("ceiling", "")])
def test_an_event_out_of_its_phase_is_the_drivers_fault(event: Event) -> None:
    book = machine()
    book.handle(Said("hi"))
    book.handle(answer("hello"))
    with pytest.raises(ValueError, match=f"{type(event).__name__} in the phase over"):
        book.handle(event)


RAW_CALLS = st.lists(
    st.builds(
        RawCall,
        st.sampled_from(["", "a", "b"]),
        st.sampled_from(["clock", "recall", "call_tool", "nope"]),
        st.sampled_from(["", "{}", "[", '{"query":"x"}', '{"tool":"http_fetch","arguments":{}}']),
    ),
    max_size=3,
)
LABELS = st.builds(Label, st.sampled_from(DataClass), st.booleans())
MODEL_EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(lambda calls: answer("", *calls, recall("")), RAW_CALLS),
    st.builds(lambda calls, text: answer(text, *calls), RAW_CALLS, st.sampled_from(["", "x"])),
    st.just(Failed("ceiling", "")),
    st.just(Cancelled("y")),
)
TOOL_EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(ToolAnswered, st.booleans(), st.text(max_size=5), LABELS),
    st.builds(ToolFailed, st.just("busy"), st.just(""), st.booleans()),
)


@settings(max_examples=150)
@given(st.data())
def test_the_laws_of_a_turn(data: st.DataObject) -> None:
    """Whatever is answered: the log's records follow each other, every call has its result, and the turn ends."""
    book = machine(limits=Turn(rounds=3, refusals=2))
    records: list[Record] = []
    waits: list[Command] = []

    def take(event: Event) -> None:
        for command in book.handle(event):
            if isinstance(command, Append):
                records.append(command.record)
                position(records)
            elif not isinstance(command, Emit | Deny | CancelModel):
                waits.append(command)

    take(Said("hi"))
    for _ in range(40):
        command = waits.pop(0)
        assert not waits
        if isinstance(command, Finish):
            break
        if data.draw(st.integers(0, 9)) == 0:
            take(Stop())
        take(data.draw(MODEL_EVENTS if isinstance(command, AskModel) else TOOL_EVENTS))
    else:
        raise AssertionError("the turn does not end")
    assert not waits
    assert position(records).open_calls == ()
