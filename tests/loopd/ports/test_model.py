"""The model asked over a real socket: what is sent to the byte, and every way in which an answer may fail."""

import socket
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from loopd.ports.completion import GARBAGE, Completion
from loopd.ports.model import CUT, SILENT, UNREACHABLE, ModelPort, Request
from loopd.tools.calls import RawCall
from loopd.turn.steps import Answered, Failed
from proto.role import trace
from tests.fakes import spans
from tests.fakes.model import FakeModel, Reply

pytestmark = pytest.mark.anyio
REQUEST = Request("local", "chat-a", b'{"messages":[{"role":"user","content":"hi"}]}')


async def ask(path: Path, timeout_s: float = 10.0) -> tuple[Answered | Failed, list[str]]:
    shown: list[str] = []
    port = ModelPort(path, timeout_s, connect_within_s=0.2)
    return await port.complete(REQUEST, Completion(), shown.append), shown


async def of(home: Path, reply: Reply) -> tuple[Answered | Failed, list[str]]:
    with FakeModel([reply], home / "m.sock"):
        return await ask(home / "m.sock")


async def test_the_request_is_what_egressd_expects(home: Path) -> None:
    with FakeModel([{"text": "hello"}], home / "m.sock") as model:
        answer, shown = await ask(home / "m.sock")
    assert answer == Answered("hello", "", (), "stop", 10, 5)
    assert "".join(shown) == "hello"
    (request,) = model.requests
    assert (request.path, request.body) == ("/local/v1/chat/completions", REQUEST.body)
    assert request.headers["x-boxmaker-session"] == "chat-a"
    assert request.headers["content-type"] == "application/json"


async def test_the_trace_goes_along_where_there_is_one(home: Path) -> None:
    with FakeModel([{"text": "a"}, {"text": "b"}], home / "m.sock") as model:
        await ask(home / "m.sock")
        with spans.kept("loopd") as sink, trace.span("session.turn") as turn:
            await ask(home / "m.sock")
    assert "traceparent" not in model.requests[0].headers
    assert model.requests[1].headers["traceparent"] == turn.traceparent
    assert [span.span_id for span in sink.spans] == [turn.span_id]


async def test_calls_and_reasoning(home: Path) -> None:
    reply = {
        "reasoning": "think",
        "text": "look",
        "calls": [{"name": "recall", "arguments": {"query": "é"}, "id": "x"}],
    }
    answer, _ = await of(home, {**reply, "raw_cut": 3})
    assert answer == Answered("look", "think", (RawCall("x", "recall", '{"query": "\\u00e9"}'),), "tool_calls", 10, 5)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"text": "hi", "stream": False}, Answered("hi", "", (), "stop", 10, 5)),
        ({"text": "hi", "no_done": True, "usage": None}, Answered("hi", "", (), "stop", None, None)),
        ({"status": 429, "error": {"message": "slow"}}, Failed("model-unavailable", "the model's provider takes no more requests for now; try again later (HTTP 429): slow")),
        ({"status": 403, "error": {"message": "too secret", "code": "ceiling"}}, Failed("ceiling", "too secret")),
        ({"text": "hello there", "cut": 2}, Failed("model-unavailable", CUT)),
        ({"text": "hello there", "cut": 0}, Failed("model-unavailable", CUT)),
        ({"raw": "data: nonsense\n\n"}, Failed("model-error", GARBAGE)),
        ({"raw": "data: [1]\n\n"}, Failed("model-error", GARBAGE)),
        ({"raw": "[", "type": "application/json"}, Failed("model-error", GARBAGE)),
        ({"raw": '{"error": {"message": "x"}}', "type": "application/json"}, Failed("model-unavailable", "the model's provider failed (in its stream): x")),
        ({"raw": 'data: {"error": {"message": "x"}}\n\n'}, Failed("model-unavailable", "the model's provider failed (in its stream): x")),
        ({"raw": ""}, Failed("model-unavailable", CUT)),
        ({"raw": ": nothing\n\n"}, Failed("model-unavailable", CUT)),
        ({"raw": "<html>", "type": "text/html"}, Failed("model-unavailable", CUT)),
        ({"raw": '{"choices": []}', "type": "application/json"}, Failed("model-unavailable", CUT)),
    ],
)  # fmt: skip
async def test_the_table_of_answers(home: Path, reply: Reply, expected: Answered | Failed) -> None:
    assert (await of(home, reply))[0] == expected


async def test_a_silent_model_is_given_up(home: Path) -> None:
    with FakeModel([{"silent": True}, {"text": "hello there", "gap_s": 5}], home / "m.sock"):
        assert (await ask(home / "m.sock", timeout_s=0.2))[0] == Failed("model-unavailable", SILENT)
        assert (await ask(home / "m.sock", timeout_s=0.2))[0] == Failed("model-unavailable", SILENT)


async def test_egressd_that_is_not_there(home: Path) -> None:
    assert (await ask(home / "m.sock"))[0] == Failed("model-unavailable", UNREACHABLE)


async def test_egressd_that_is_just_starting_is_waited_for(home: Path) -> None:
    model = FakeModel([{"text": "hello"}], home / "m.sock")
    port = ModelPort(home / "m.sock", 10.0, connect_within_s=10.0)
    got: list[Any] = []
    words: list[str] = []

    async def later() -> None:
        got.append(await port.complete(REQUEST, Completion(), words.append))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(later)
        await anyio.sleep(0.15)
        model.__enter__()
    model.__exit__()
    assert got == [Answered("hello", "", (), "stop", 10, 5)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ndata: x",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    ],
)
async def test_broken_http_is_a_broken_answer(home: Path, data: bytes) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(home / "m.sock"))
    listening.listen()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(data)

    thread = threading.Thread(target=serve)
    thread.start()
    assert (await ask(home / "m.sock"))[0] == Failed("model-unavailable", CUT)
    thread.join()
    listening.close()


async def test_what_was_said_is_known_when_the_call_is_cancelled(home: Path) -> None:
    completion = Completion()
    with FakeModel([{"text": "hello there", "chunk": 5, "gap_s": 0.05}], home / "m.sock"):
        with anyio.CancelScope() as scope:
            await ModelPort(home / "m.sock", 10.0).complete(REQUEST, completion, lambda _: scope.cancel())
        assert scope.cancelled_caught
    assert completion.content.whole() == "hello"
