"""loopd whole: what the owner sees, what stands in the log, what the model and the other daemons are sent."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest

from proto.faults import FAULTS, Fault
from proto.labels import DataClass, Label
from proto.messages.broker import ApprovalAnswer, SessionClose, SessionLabel, SessionOpen, ToolRequest
from proto.messages.loop import (
    ChatApproval,
    ChatDelta,
    ChatDone,
    ChatFailed,
    ChatLabel,
    ChatOpened,
    ChatStop,
    ChatTool,
    SessionLog,
    SessionLogReply,
    Sessions,
    SessionsReply,
)
from proto.messages.wire import Ok
from tests.fakes.brokerd import Says
from tests.fakes.memory_block import BLOCK
from tests.loopd.rig import loopd, of, until, world

pytestmark = pytest.mark.anyio
UNTRUSTED = Label(DataClass.PRIVATE, untrusted=True)


def recall(query: str = "launch", id: str = "c1") -> dict[str, Any]:
    return {"calls": [{"name": "recall", "arguments": {"query": query}, "id": id}]}


async def test_a_first_turn(home: Path) -> None:
    with world(home, [{"text": "Hello, owner.", "usage": [900, 4]}]) as outside:
        async with loopd(home) as rig:
            events = await rig.chat("hi")
    opened, done = events[0], events[-1]
    assert isinstance(opened, ChatOpened)
    assert (opened.new, opened.destination, opened.model) == (True, "local", "smollm2-135m-instruct")
    assert (opened.class_, opened.untrusted) == (DataClass.PRIVATE, False)
    assert "".join(event.text for event in of(ChatDelta, events)) == "Hello, owner."
    assert done == ChatDone(session=opened.session, text="Hello, owner.", input_tokens=900, output_tokens=4)
    assert outside.log(opened.session) == [
        {"kind": "user", "text": "hi", "author": None},
        {"kind": "assistant", "content": "Hello, owner.", "tool_calls": []},
    ]
    (session_open,) = outside.broker.of(SessionOpen)
    assert (session_open.new, session_open.session_kind, session_open.principal) == (True, "chat", "owner")
    assert (session_open.domain, session_open.destination, session_open.auth) == ("dom-me", "local", "none")
    (request,) = outside.model.requests
    assert request.path == "/local/v1/chat/completions"
    assert request.headers["x-boxmaker-session"] == opened.session
    assert request.json["max_tokens"] == 1024
    assert request.messages[0]["content"].endswith(f"\n\n{BLOCK}")
    assert request.messages[1:] == [{"role": "user", "content": "hi"}]


async def test_the_prompt_of_a_later_turn_begins_with_the_bytes_of_the_earlier_across_a_restart(home: Path) -> None:
    script = [recall(), {"text": "First.", "reasoning": "hm"}, {"status": 500}, {"text": "Third."}]
    with world(home, script) as outside:
        outside.broker.tools["recall"] = Says("[1] identity\n記憶")
        async with loopd(home) as rig:
            session = (await rig.chat("one"))[0].session
            assert (await rig.chat("two", session))[-1].code == "model-unavailable"
        # What memory holds by now does not matter: the block is frozen.
        outside.memory.block = "# soul.md\nanother soul"
        async with loopd(home) as rig:
            assert (await rig.chat("three", session))[-1].text == "Third."
            assert (await rig.chat("another"))[-1].text == "The script is at its end."
        bodies = [request.body for request in outside.model.requests]
    assert len(bodies) == 5
    for earlier, later in pairwise(bodies[:4]):
        assert later.startswith(earlier.removesuffix(b"]}"))
        assert len(later) > len(earlier)
    assert b"another soul" not in bodies[3]
    assert b"another soul" in bodies[4]
    assert json.loads(bodies[3])["messages"][-3:] == [
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "(no answer was given)"},
        {"role": "user", "content": "three"},
    ]


async def test_calls_go_through_brokerd_in_order_and_a_risen_label_is_told(home: Path) -> None:
    both = {"text": "Looking.", "calls": [{"name": "call_tool", "arguments": {"tool": "http_fetch", "arguments": {"url": "https://a.example/"}}}, recall()["calls"][0]]}  # fmt: skip
    with world(home, [both, {"text": "Done."}]) as outside:
        outside.broker.tools = {"http_fetch": Says("page\x1b", label=UNTRUSTED), "recall": Says("(no matches)")}
        async with loopd(home) as rig:
            events = await rig.chat("hi")
            again = await rig.chat("hi", events[0].session)
            # brokerd may have closed it meanwhile: it is taken up again.
            label = outside.broker.labels.pop(events[0].session)
            assert (await rig.chat("hi", events[0].session))[-1].code == "session-state-lost"
            outside.broker.labels[events[0].session] = label
    session = events[0].session
    assert [(request.session, request.call, request.tool, request.arguments) for request in outside.broker.of(ToolRequest)] == [
        (session, "call_0", "http_fetch", {"url": "https://a.example/"}),
        (session, "c1", "recall", {"query": "launch"}),
    ]  # fmt: skip
    assert [(event.call, event.tool, event.state, event.text) for event in of(ChatTool, events)] == [
        ("call_0", "http_fetch", "running", ""),
        ("call_0", "http_fetch", "ok", "page\\u{1b}"),
        ("c1", "recall", "running", ""),
        ("c1", "recall", "ok", "(no matches)"),
    ]
    assert of(ChatLabel, events) == [ChatLabel(class_=DataClass.PRIVATE, untrusted=True)]
    assert of(ChatDone, events)[0].text == "Done."
    assert again[0].untrusted
    assert [type(request) for request in outside.broker.requests if not isinstance(request, ToolRequest)] == [
        SessionOpen, SessionLabel, SessionLabel, SessionOpen,
    ]  # fmt: skip
    assert outside.log(session)[1:4] == [
        {
            "kind": "assistant",
            "content": "Looking.",
            "tool_calls": [
                {"id": "call_0", "name": "call_tool", "arguments": both["calls"][0]["arguments"]},
                {"id": "c1", "name": "recall", "arguments": {"query": "launch"}},
            ],
        },
        {"kind": "tool_result", "call": "call_0", "name": "call_tool", "content": "page\x1b", "class": "private", "untrusted": True},
        {"kind": "tool_result", "call": "c1", "name": "recall", "content": "(no matches)", "class": "private", "untrusted": False},
    ]  # fmt: skip


async def test_memoryd_is_told_after_a_finished_turn_and_not_after_one_that_ends_in_calls(home: Path) -> None:
    with world(home, [recall(), {"status": 500}]) as outside:
        async with loopd(home) as rig:
            events = await rig.chat("hi")
            assert isinstance(events[-1], ChatFailed)
            assert outside.memory.updated == []
            session = events[0].session
            assert isinstance((await rig.chat("hi", session))[-1], ChatDone)
            await until(lambda: outside.memory.updated == [session])
            # A memoryd that fails costs the answer nothing.
            outside.memory.fault = Fault("internal")
            assert isinstance((await rig.chat("hi", session))[-1], ChatDone)


async def test_a_memoryd_that_hangs_holds_no_answer_up_and_is_told_later(home: Path) -> None:
    with world(home, [{"text": "a"}, {"text": "b"}, {"text": "c"}]) as outside:
        outside.memory.running.clear()
        async with loopd(home) as rig:
            with anyio.fail_after(20):
                session = (await rig.chat("one"))[-1].session
                assert [(await rig.chat(text, session))[-1].text for text in ("two", "three")] == ["b", "c"]
            assert outside.memory.came == [session]
            outside.memory.running.set()
            await until(lambda: outside.memory.updated == [session, session])


async def test_without_memory_no_session_starts_and_those_that_are_there_go_on(home: Path) -> None:
    with world(home, [{"text": "a"}, {"text": "b"}]) as outside:
        async with loopd(home) as rig:
            session = (await rig.chat("hi"))[0].session
            outside.memory.fault = Fault("memory-unavailable", "memory.md is over its limit")
            (failed,) = await rig.chat("hi")
            assert (failed.session, failed.code, failed.runbook) == (None, "memory-unavailable", "memory-unavailable")
            assert failed.message == "no session can start without its memory: memory.md is over its limit"
            (home / "run/loop-memory/memory.sock").unlink()
            (failed,) = await rig.chat("hi")
            assert failed.message == "no session can start without its memory: the memory block cannot be served"
            assert (await rig.chat("hi", session))[-1].text == "b"
            assert (await rig.ask(Sessions(), SessionsReply)).total == 1


async def test_the_same_refused_call_ends_in_an_answer_without_tools(home: Path) -> None:
    with world(home, [recall(id=f"c{number}") for number in range(3)] + [{"text": "I may not."}]) as outside:
        async with loopd(home) as rig:
            events = await rig.chat("hi")
    assert events[-1].text == "I may not."
    assert [request.json.get("tool_choice") for request in outside.model.requests] == [None, None, None, "none"]
    assert (
        outside.model.requests[3]
        .messages[-1]["content"]
        .startswith("refused: no grant allows this call (the same call has been refused 3 times and is not made again")
    )
    bodies = [request.body for request in outside.model.requests]
    assert bodies[3].startswith(bodies[2].removesuffix(b"]}"))


async def test_malformed_calls_are_told_to_the_model(home: Path) -> None:
    bad = [
        {"name": "recall", "arguments": '{"query": ', "id": "x"},
        {"name": "recall", "arguments": "[]", "id": "x"},
        {"name": "recall", "arguments": '{"k": NaN}', "id": "é"},
        {"name": "weather", "arguments": "{}", "id": ""},
    ]
    with world(home, [{"calls": bad}, {"text": "Sorry."}]) as outside:
        async with loopd(home) as rig:
            events = await rig.chat("hi")
    assert events[-1].text == "Sorry."
    results = [message for message in outside.model.requests[1].messages if message["role"] == "tool"]
    assert [result["tool_call_id"] for result in results] == ["x", "call_1_1", "call_1_2", "call_1_3"]
    assert all(result["content"].startswith("refused: ") for result in results)
    assert outside.broker.of(ToolRequest) == []


async def test_an_approval_is_asked_and_answered_in_place(home: Path) -> None:
    with world(home, [recall(), {"text": "Done."}]) as outside:
        outside.broker.tools["recall"] = Says("found", asks=True)
        async with loopd(home) as rig, rig.turn("hi") as events:
            seen = []
            async for event in events:
                seen.append(event)
                if isinstance(event, ChatApproval):
                    assert event.text == "run recall?"
                    answer = ApprovalAnswer(approval=event.approval, allow=True, by="chat")
                    assert await rig.ask(answer, Ok) == Ok()
                    with pytest.raises(Fault) as caught:
                        await rig.ask(answer, Ok)
                    assert caught.value.code == "approval-unknown"
    assert of(ChatTool, seen)[-1].text == "found"
    assert outside.broker.of(ApprovalAnswer)[0].by == "chat"
    assert seen[-1].text == "Done."


async def test_one_turn_at_a_time_in_a_session_and_many_sessions_at_once(home: Path) -> None:
    with world(home, [{"text": "a"}, {"text": "held", "hold": True}, {"text": "other"}]) as outside:
        async with loopd(home) as rig:
            session = (await rig.chat("hi"))[0].session
            async with rig.turn("wait", session) as events:
                assert isinstance(await anext(events), ChatOpened)
                (busy,) = await rig.chat("too early", session)
                assert (busy.session, busy.code, busy.message) == (
                    session,
                    "session-busy",
                    FAULTS["session-busy"].sentence,
                )
                await anyio.to_thread.run_sync(outside.model.wait_for, 2)
                assert (await rig.chat("another"))[-1].text == "other"
                states = {row.session: row.state for row in (await rig.ask(Sessions(), SessionsReply)).sessions}
                assert states[session] == "busy"
                outside.model.release()
                assert [event async for event in events][-1].text == "held"
    assert [line["text"] for line in outside.log(session) if line["kind"] == "user"] == ["hi", "wait"]


async def test_a_client_that_goes_away_does_not_stop_the_turn(home: Path) -> None:
    with world(home, [{"text": "never mind", "hold": True}, {"text": "b"}]) as outside:
        async with loopd(home) as rig:
            async with rig.turn("hi") as events:
                session = (await anext(events)).session
                await anyio.to_thread.run_sync(outside.model.wait_for, 1)
            outside.model.release()
            await until(lambda: len(outside.log(session)) == 2)
            assert outside.log(session)[1]["content"] == "never mind"
            await rig.idle(session)
            assert (await rig.chat("next", session))[-1].text == "b"


async def test_a_stop_keeps_what_was_said(home: Path) -> None:
    with world(home, [{"text": "one two three", "chunk": 4, "gap_s": 0.05}, {"text": "b"}]) as outside:
        async with loopd(home) as rig:
            async with rig.turn("count") as events:
                seen = []
                async for event in events:
                    seen.append(event)
                    if isinstance(event, ChatDelta):
                        assert await rig.ask(ChatStop(session=seen[0].session), Ok) == Ok()
            session = seen[0].session
            assert (seen[-1].code, seen[-1].message) == ("turn-stopped", "the turn was stopped")
            said = outside.log(session)[1]["content"]
            assert said
            assert "one two three".startswith(said)
            assert (await rig.chat("go on", session))[-1].text == "b"
            assert outside.model.requests[1].messages[2] == {"role": "assistant", "content": said}
            assert await rig.ask(ChatStop(session=session), Ok) == Ok()
            with pytest.raises(Fault) as caught:
                await rig.ask(ChatStop(session="chat-none"), Ok)
            assert caught.value.code == "session-unknown"


async def test_a_stop_denies_the_approval_that_is_waited_for(home: Path) -> None:
    with world(home, [recall()]) as outside:
        outside.broker.tools["recall"] = Says("found", asks=True)
        async with loopd(home) as rig, rig.turn("hi") as events:
            seen = []
            async for event in events:
                seen.append(event)
                if isinstance(event, ChatApproval):
                    await rig.ask(ChatStop(session=seen[0].session), Ok)
    assert seen[-1].code == "turn-stopped"
    (answer,) = outside.broker.of(ApprovalAnswer)
    assert (answer.allow, answer.by) == (False, "stop")
    assert outside.log(seen[0].session)[-1]["content"] == "refused: the owner said no"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("", "text-empty", "there is nothing to answer: the text is empty"),
        (" \n\t", "text-empty", "there is nothing to answer: the text is empty"),
        ("é" * 200_000, "text-too-long", "the text has 400,000 bytes; one message may have 262,144"),
        ("word " * 10_000, "text-too-long", "the text does not fit the model's context of 8,192 tokens"),
    ],
)
async def test_a_text_that_cannot_be_taken(home: Path, text: str, code: str, message: str) -> None:
    with world(home) as outside:
        async with loopd(home) as rig:
            session = (await rig.chat("hi"))[0].session
            for where in (None, session):
                (failed,) = of(ChatFailed, await rig.chat(text, where))
                assert (failed.session, failed.code, failed.message) == (where, code, message)
            assert (await rig.ask(Sessions(), SessionsReply)).total == 1
            assert isinstance((await rig.chat("hi", session))[-1], ChatDone)
    assert len(outside.log(session)) == 4


async def test_a_full_context_ends_the_session_for_good(home: Path) -> None:
    sentence = "this session is full; start a new one, and what it learned stays in memory"
    with world(home, [{"text": "word " * 2000, "usage": None}, {"text": "b"}]) as outside:
        async with loopd(home) as rig:
            session = (await rig.chat("hi"))[0].session
        for _ in range(2):
            async with loopd(home) as rig:
                for text in ("word " * 5000, "hi"):
                    failed = (await rig.chat(text, session))[-1]
                    assert (failed.code, failed.message) == ("session-full", sentence)
                (row,) = (await rig.ask(Sessions(), SessionsReply)).sessions
                assert row.state == "full"
        assert len(outside.broker.of(SessionClose)) == 1
        assert len(outside.log(session)) == 2


async def test_the_models_own_word_that_the_context_is_full_counts(home: Path) -> None:
    full = {"status": 400, "error": {"message": "too long", "code": "context_length_exceeded"}}
    with world(home, [{"text": "a"}, full]) as outside:
        async with loopd(home) as rig:
            session = (await rig.chat("hi"))[0].session
            assert [(await rig.chat("more", session))[-1].code for _ in range(2)] == ["session-full"] * 2
            assert len(outside.model.requests) == 2


async def test_the_count_of_the_model_is_what_counts(home: Path) -> None:
    with world(home, [{"text": "a", "usage": [8000, 10]}]):
        async with loopd(home) as rig:
            session = (await rig.chat("word " * 1000))[0].session
            assert (await rig.chat("more", session))[-1].code == "session-full"


async def test_a_count_that_cannot_be_is_none(home: Path) -> None:
    with world(home, [{"text": "a", "usage": [1 << 39, 10]}, {"text": "b", "usage": [100_000, 1 << 80]}]):
        async with loopd(home) as rig:
            done = (await rig.chat("hi"))[-1]
            assert (done.text, done.input_tokens, done.output_tokens) == ("a", None, 10)
            again = (await rig.chat("more", done.session))[-1]
            assert (again.text, again.input_tokens, again.output_tokens) == ("b", None, None)


async def test_an_answer_that_was_cut_is_told_as_such_and_the_model_is_sent_its_own_words(home: Path) -> None:
    with world(home, [{"text": "one tw", "finish": "length"}, {"text": "b"}]) as outside:
        async with loopd(home) as rig:
            events = await rig.chat("count")
            whole = "one tw\n\n(the answer was cut: the model's limit of output was reached)"
            assert events[-1].text == "".join(event.text for event in of(ChatDelta, events)) == whole
            await rig.chat("go on", events[-1].session)
        assert outside.log(events[-1].session)[1]["content"] == "one tw"
        assert outside.model.requests[1].messages[2] == {"role": "assistant", "content": "one tw"}


async def test_a_refusal_of_egressd_is_told_and_the_session_goes_on(home: Path) -> None:
    error = {"message": "the session is secret, local takes private", "type": "permission_error", "code": "ceiling"}
    with world(home, [{"status": 403, "error": error}, {"text": "b"}]):
        async with loopd(home) as rig:
            opened, failed = await rig.chat("hi")
            assert failed == ChatFailed(
                session=opened.session, code="ceiling", message=error["message"], runbook=FAULTS["ceiling"].runbook
            )
            assert (await rig.chat("hi", opened.session))[-1].text == "b"


async def test_a_session_keeps_the_model_that_it_began_with(home: Path) -> None:
    with world(home, [{"text": "a"}, {"text": "b"}]) as outside:
        async with loopd(home) as rig:
            session = (await rig.chat("hi"))[0].session
        (home / "config" / "loopd.toml").write_text(
            '[model]\ndestination = "cloud"\nname = "m2"\nauth = "key"\noutput_field = "max_completion_tokens"\n'
        )
        async with loopd(home) as rig:
            opened = (await rig.chat("hi", session))[0]
            assert (opened.destination, opened.model) == ("local", "smollm2-135m-instruct")
            assert (await rig.chat("hi"))[0].destination == "cloud"
        assert [request.path for request in outside.model.requests] == [
            "/local/v1/chat/completions", "/local/v1/chat/completions", "/cloud/v1/chat/completions",
        ]  # fmt: skip
        assert outside.model.requests[2].json["max_completion_tokens"] == 1024


async def test_without_brokerd_no_turn_begins(home: Path) -> None:
    with world(home, [{"text": "a"}]) as outside:
        async with loopd(home) as rig:
            session = (await rig.chat("hi"))[0].session
            outside.broker.lost.add(session)
            (failed,) = await rig.chat("hi", session)
            assert (failed.code, failed.runbook) == ("session-state-lost", "session-state-lost")
            assert (await rig.ask(Sessions(), SessionsReply)).sessions[0].state == "lost"
            outside.broker.lost.clear()
            assert isinstance((await rig.chat("hi", session))[-1], ChatDone)
    with world(home) as outside:
        (home / "run/loop-broker/broker.sock").unlink()
        async with loopd(home) as rig:
            for where in (None, session):
                (failed,) = await rig.chat("hi", where)
                assert failed.code == "brokerd-unreachable"
    assert len(outside.log(session)) == 4


async def test_a_brokerd_that_goes_away_in_a_turn_ends_it_with_whole_records(home: Path) -> None:
    two = {"calls": [*recall()["calls"], *recall(id="c2")["calls"]]}
    with world(home, [two, {"text": "b"}]) as outside:
        outside.broker.fault = "session-not-open"
        async with loopd(home) as rig:
            events = await rig.chat("hi")
            assert events[-1].code == "session-not-open"
            session = events[0].session
            assert [line["kind"] for line in outside.log(session)] == [
                "user",
                "assistant",
                "tool_result",
                "tool_result",
            ]
            outside.broker.fault = None
            assert (await rig.chat("again", session))[-1].text == "b"


async def test_the_owner_sees_sessions_and_their_records(home: Path) -> None:
    with world(home, [{"text": "a"}, {"text": "b"}]) as outside:
        async with loopd(home) as rig:
            first = (await rig.chat("the first"))[0].session
            await anyio.sleep(0.01)
            second = (await rig.chat("the second"))[0].session
            reply = await rig.ask(Sessions(last=1), SessionsReply)
            assert (reply.total, [row.session for row in reply.sessions]) == (2, [second])
            (row, _) = (await rig.ask(Sessions(), SessionsReply)).sessions
            assert (row.first, row.records, row.state, row.class_, row.untrusted) == (
                "the second", 2, "open", DataClass.PRIVATE, False,
            )  # fmt: skip
            # Without brokerd the list is shown, without labels.
            (home / "run/loop-broker/broker.sock").rename(home / "moved")
            rows = (await rig.ask(Sessions(), SessionsReply)).sessions
            assert [(row.session, row.class_) for row in rows] == [(second, None), (first, None)]
            (home / "moved").rename(home / "run/loop-broker/broker.sock")
            log = await rig.ask(SessionLog(session=first, first=1), SessionLogReply)
            assert (log.records[0]["content"], log.next) == ("a", None)
            with (home / "sessions" / first / "0.jsonl").open("ab") as file:
                file.write(b"damage\n")
            (failed,) = await rig.chat("hi", first)
            assert failed.code == "session-damaged"
            states = {row.session: row.state for row in (await rig.ask(Sessions(), SessionsReply)).sessions}
            assert states == {first: "damaged", second: "open"}
            (unknown,) = await rig.chat("hi", "chat-none")
            assert (unknown.session, unknown.code) == ("chat-none", "session-unknown")
    assert len(outside.model.requests) == 2


async def test_a_long_answer_comes_in_frames(home: Path) -> None:
    text = "記" * 230_000
    with world(home, [{"text": text, "stream": False, "usage": None}], "[model]\ncontext_tokens = 1000000\n"):
        async with loopd(home) as rig:
            events = await rig.chat("hi")
    assert "".join(event.text for event in of(ChatDelta, events)) == text == events[-1].text
    assert len(of(ChatDelta, events)) == 3
