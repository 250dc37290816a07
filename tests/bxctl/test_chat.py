"""`bxctl chat` without a terminal: one question, lines from a pipe, JSON; approvals, ^C, a loopd that goes away."""

import io
import json
import os
import signal
import sys
from typing import Any

import anyio
import pytest

from proto.faults import Fault
from proto.labels import DataClass
from proto.messages import broker, loop, wire
from proto.role.serve import Connection
from tests.bxctl.conftest import Bxctl
from tests.bxctl.fakes import Fakes

ROW = "owner-loop"
SESSION = "chat-20260924-210203-0a1b2c"
APPROVAL = "ap-0123456789abcdef"
OPENED = loop.ChatOpened(
    session=SESSION, new=True, destination="local", model="m", class_=DataClass.PRIVATE, untrusted=False
)
RUNNING = loop.ChatTool(call="c1", tool="http_fetch", arguments='{"url":"x"}', state="running", text="")
FETCHED = loop.ChatTool(call="c1", tool="http_fetch", arguments='{"url":"x"}', state="ok", text="a page")
WANTED = loop.ChatApproval(approval=APPROVAL, call="c1", text="http_fetch x\x1b[2J", expires="2026-09-24T22:00:00Z")
ROSE = loop.ChatLabel(class_=DataClass.PRIVATE, untrusted=True)
DONE = loop.ChatDone(session=SESSION, text="an answer\nof two lines", input_tokens=10, output_tokens=3)
FAILED = loop.ChatFailed(
    session=SESSION, code="model-unavailable", message="the model cannot be reached", runbook="model-unavailable"
)


def _delta(text: str) -> loop.ChatDelta:
    return loop.ChatDelta(text=text)


@pytest.mark.parametrize("command", ["chat", "run"])
@pytest.mark.parametrize(
    "question",
    [
        "hello",
        'it\'s "quoted" and costs $5, $(HOME), `id`',
        "星期四 · é \U0001f680",
        "-- not an option",
        "a\nb",
        "\\n %s",
    ],
)
def test_one_question_reaches_loopd_as_it_is_and_its_answer_is_the_output(
    bxctl: Bxctl, fakes: Fakes, command: str, question: str
) -> None:
    assert bxctl("init").code == 0
    fakes.up().answer(ROW, loop.Chat, [OPENED, _delta("an "), RUNNING, FETCHED, ROSE, DONE])
    with fakes.serving():
        result = bxctl(command, "--", question)
    assert (result.code, result.out, result.err) == (0, "an answer\nof two lines\n", "")
    assert fakes.one(loop.Chat) == loop.Chat(session=None, text=question)


@pytest.mark.parametrize("question", ['it\'s $5 `id` "x"', "--help", "星期四"])
def test_ask_of_the_environment_is_the_question_of_run(
    bxctl: Bxctl, fakes: Fakes, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    assert bxctl("init").code == 0
    monkeypatch.setenv("ASK", question)
    fakes.up().answer(ROW, loop.Chat, [OPENED, DONE])
    with fakes.serving():
        assert bxctl("run").code == 0
    assert fakes.one(loop.Chat).text == question


def test_a_question_can_come_from_standard_input(bxctl: Bxctl, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.answer(ROW, loop.Chat, [OPENED, DONE])
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\ntwo\n"))
    with fakes.serving():
        assert bxctl("chat", "-", "--session", SESSION).code == 0
    assert fakes.one(loop.Chat) == loop.Chat(session=SESSION, text="one\ntwo\n")


def test_each_line_of_a_pipe_is_a_turn_of_one_session(
    bxctl: Bxctl, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.answer(ROW, loop.Chat, [OPENED, DONE])
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\n\n  two  \nthree"))
    with fakes.serving():
        result = bxctl("chat")
    assert (result.code, result.out) == (0, "an answer\nof two lines\n" * 3)
    assert [(request.session, request.text) for request in fakes.asked] == [
        (None, "one"),
        (SESSION, "two"),
        (SESSION, "three"),
    ]


def test_a_turn_that_fails_is_told_of_and_is_exit_code_1(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer(ROW, loop.Chat, [OPENED, FAILED])
    with fakes.serving():
        result = bxctl("chat", "hello")
    expected = "bxctl: the model cannot be reached (runbook: model-unavailable)\n"
    assert (result.code, result.out, result.err) == (1, "", expected)


def test_a_sentence_that_names_its_entry_does_not_name_it_twice(bxctl: Bxctl, fakes: Fakes) -> None:
    sentence = "brokerd does not answer (runbook: brokerd-unreachable)"
    failed = loop.ChatFailed(session=SESSION, code="x", message=sentence, runbook="brokerd-unreachable")
    fakes.answer(ROW, loop.Chat, [OPENED, failed])
    with fakes.serving():
        assert bxctl("chat", "hello").err == f"bxctl: {sentence}\n"


def test_a_refusal_of_loopd_is_its_sentence(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer(ROW, loop.Chat, Fault("session-unknown"))
    with fakes.serving():
        result = bxctl("chat", "hello", "--session", SESSION)
    assert (result.code, result.err) == (1, "bxctl: there is no session of that id\n")


def test_json_is_each_event_as_a_line(bxctl: Bxctl, fakes: Fakes) -> None:
    events = [OPENED, _delta("\x1b[2J é"), RUNNING, FETCHED, ROSE, DONE]
    fakes.answer(ROW, loop.Chat, events)
    with fakes.serving():
        result = bxctl("chat", "--json", "hello")
    kinds = ["chat_opened", "chat_delta", "chat_tool", "chat_tool", "chat_label", "chat_done"]
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [event["kind"] for event in found] == kinds
    assert found[1]["text"] == "\x1b[2J é"
    assert result.out.isascii()
    assert result.code == 0


def test_the_answer_cannot_move_the_cursor(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer(
        ROW,
        loop.Chat,
        [OPENED, loop.ChatDone(session=SESSION, text="a\x1b[2Jb\u202e\tc\n", input_tokens=None, output_tokens=None)],
    )
    with fakes.serving():
        assert bxctl("chat", "hello").out == "a\\u{1b}[2Jb\\u{202e}\tc\n\n"


def test_loopd_that_hangs_up_is_exit_code_3_and_names_the_session(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer(ROW, loop.Chat, [OPENED, _delta("an ")])
    with fakes.serving():
        result = bxctl("chat", "hello")
    assert result.code == 3
    assert f"bxctl chat --session {SESSION}" in result.err


@pytest.mark.parametrize("session", [(), ("--session", SESSION)])
def test_without_loopd_the_exit_code_is_3(bxctl: Bxctl, session: tuple[str, ...]) -> None:
    result = bxctl("chat", *session, "hello")
    assert result.code == 3
    assert "start the box with: bxctl up" in result.err


def _waiting_turn() -> Any:
    """A turn with a call that waits until it is decided elsewhere."""

    async def turn(request: loop.Chat, connection: Connection) -> loop.ChatDone:
        before: tuple[Any, ...] = (OPENED, RUNNING, WANTED)
        for event in before:
            await connection.send(event)
        await anyio.sleep(0.05)
        for event in (FETCHED, ROSE):
            await connection.send(event)
        return DONE

    return turn


def test_without_a_terminal_the_command_that_answers_is_named(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer(ROW, loop.Chat, _waiting_turn())
    with fakes.serving():
        result = bxctl("chat", "hello")
    assert result.code == 0
    assert result.err == (
        "a tool call waits for you (until 2026-09-24T22:00:00Z):\n  http_fetch x\\u{1b}[2J\n"
        f"allow it with: bxctl approve {APPROVAL}\n"
    )


@pytest.mark.parametrize("presses", [1, 2])
def test_interrupt_stops_the_turn_and_a_second_one_leaves_it(bxctl: Bxctl, fakes: Fakes, presses: int) -> None:
    stopped: list[loop.ChatStop] = []

    async def turn(request: loop.Chat, connection: Connection) -> loop.ChatFailed:
        await connection.send(OPENED)
        await anyio.sleep(0.1)
        for _ in range(presses):
            os.kill(os.getpid(), signal.SIGINT)
            await anyio.sleep(0.1)
        with anyio.move_on_after(5):
            while not stopped or presses > 1:
                await anyio.sleep(0.01)
                if connection.peer_gone():
                    break
        return FAILED

    async def stop(request: loop.ChatStop, connection: Connection) -> wire.Ok:
        stopped.append(request)
        return wire.Ok()

    fakes.answer(ROW, loop.Chat, turn).answer(ROW, loop.ChatStop, stop)
    with fakes.serving():
        result = bxctl("chat", "hello")
    assert stopped == [loop.ChatStop(session=SESSION)]
    assert result.code == (1 if presses == 1 else 130)


def test_the_last_session_goes_on(bxctl: Bxctl, fakes: Fakes) -> None:
    summary = loop.SessionSummary(
        session=SESSION, began="", updated="", records=2, first="", state="open", class_=None, untrusted=None
    )
    fakes.answer(ROW, loop.Sessions, loop.SessionsReply(sessions=[summary], total=1))
    fakes.answer(ROW, loop.Chat, [OPENED, DONE])
    with fakes.serving():
        assert bxctl("chat", "--last", "hello").code == 0
    assert fakes.one(loop.Chat).session == SESSION


def test_approvals_are_not_answered_for_a_script(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer(ROW, loop.Chat, _waiting_turn())
    fakes.answer(ROW, broker.ApprovalAnswer, wire.Ok())
    with fakes.serving():
        result = bxctl("chat", "--json", "hello")
    assert '"kind": "chat_approval"' in result.out
    assert not [request for request in fakes.asked if isinstance(request, broker.ApprovalAnswer)]
