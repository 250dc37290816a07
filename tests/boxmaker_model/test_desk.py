"""The socket, with a model without weights: hostile HTTP, clients that leave, streams that say what whole answers say."""

import json
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import anyio
import pytest

from boxmaker_model import MODEL_ID
from boxmaker_model.claims import NOTHING_DONE
from boxmaker_model.connection import MOST_BODY_BYTES
from tests.boxmaker_model.fakes import (
    TOOLS,
    FakeModel,
    chat,
    complete,
    desk_of,
    exchange,
    http,
    joined,
    receive_all,
    streamed,
    throw,
)

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
INTENTS = [
    "remember that the launch moved to Thursday",
    "what did I say about the launch?",
    "fetch https://example.org/x",
]


async def test_it_says_what_it_is(home: Path) -> None:
    async with desk_of(FakeModel(), home) as path:
        assert await exchange(path, http("GET", "/health")) == (200, b'{"status":"ok","model":"smollm2-135m-instruct"}')
        status, body = await exchange(path, http("GET", "/v1/models?limit=1"))
        assert (status, [model["id"] for model in json.loads(body)["data"]]) == (200, [MODEL_ID])


async def test_words_whole_and_streamed(home: Path) -> None:
    async with desk_of(FakeModel("Good", " day", "."), home) as path:
        answer = await complete(path, "hello")
        assert answer["choices"][0]["message"] == {"role": "assistant", "content": "Good day.", "refusal": None}
        assert answer["choices"][0]["finish_reason"] == "stop"
        assert answer["usage"]["completion_tokens"] == 3
        said = joined(await streamed(path, "hello"))
        assert (said["content"], said["finish"], said["usage"]) == ("Good day.", "stop", answer["usage"])


async def test_an_answer_is_never_empty(home: Path) -> None:
    async with desk_of(FakeModel("", " "), home) as path:
        said = joined(await streamed(path, "hello"))
    assert said["content"].strip() == "(The embedded model has no words for this.)"


@pytest.mark.parametrize("tail", ["", " and" * 40])
async def test_words_that_claim_an_act_are_replaced(home: Path, tail: str) -> None:
    model = FakeModel("Remember", ": saved", " as a note", tail, endless=bool(tail))
    async with desk_of(model, home) as path:
        said = joined(await streamed(path, "记住 nothing?"))
    assert (said["content"], said["finish"]) == (NOTHING_DONE, "stop")


async def test_a_late_claim_is_contradicted_and_ends_the_answer(home: Path) -> None:
    story = "Once upon a time there was a ship that sailed to an island far away from every port."
    async with desk_of(FakeModel(story, " I have saved", " that for you.", endless=True), home) as path:
        answer = await complete(path, "tell me a story")
    assert answer["choices"][0]["message"]["content"] == f"{story} I have saved\n\n({NOTHING_DONE})"
    assert answer["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("sentence", INTENTS)
async def test_a_streamed_call_is_the_whole_one(home: Path, sentence: str) -> None:
    async with desk_of(FakeModel(), home) as path:
        answer = await complete(path, sentence)
        said = joined(await streamed(path, sentence))
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert answer["choices"][0]["finish_reason"] == said["finish"] == "tool_calls"
    assert answer["choices"][0]["message"]["content"] is None
    (streamed_call,) = said["calls"]
    assert streamed_call[1:] == [call["function"]["name"], call["function"]["arguments"]]
    assert all(
        name.startswith("call_") and int(name.removeprefix("call_"), 16) for name in (call["id"], streamed_call[0])
    )
    assert (said["content"], said["usage"]) == ("", answer["usage"])


async def test_a_turn_with_a_tool(home: Path) -> None:
    async with desk_of(FakeModel(), home) as path:
        question = {"role": "user", "content": "what did I say about the launch?"}
        message = (await complete(path, question))["choices"][0]["message"]
        result = "[1] memory · session chat-a, 2026-09-20 14:02 UTC, the owner said · private\nit moved to Thursday"
        tool = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": result}
        answer = await complete(path, question, message, tool)
    assert answer["choices"][0]["message"]["content"] == (
        "Here is what I found:\n- “it moved to Thursday” (session chat-a, 2026-09-20 14:02 UTC, the owner said)"
    )


async def test_usage_in_a_stream_can_be_declined(home: Path) -> None:
    async with desk_of(FakeModel(), home) as path:
        events = await streamed(path, "hello", stream_options={"include_usage": False})
    assert all(event["choices"] for event in events)


async def test_a_request_over_the_context_is_refused(home: Path) -> None:
    async with desk_of(FakeModel(), home) as path:
        status, body = await exchange(path, http("POST", CHAT, chat("word " * 1001)))
    error = json.loads(body)["error"]
    assert (status, error["code"], error["type"]) == (400, "context_length_exceeded", "invalid_request_error")
    assert error["message"].endswith(", and this model's context 1,000")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_model_that_fails_is_an_error_and_no_end(home: Path, stream: bool) -> None:
    model = FakeModel(broken=True)
    async with desk_of(model, home) as path:
        status, body = await exchange(path, http("POST", CHAT, chat("hello", stream=stream)))
        if stream:
            assert status == 200
            assert b'"message":"the weights are damaged","type":"server_error"' in body
            assert body.rstrip(b"\r\n0").endswith(b"data: [DONE]")
        else:
            assert (status, json.loads(body)["error"]["type"]) == (500, "server_error")
        model.broken = False
        assert await complete(path, "hello")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\0" * 100 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET /health HTTP/one\r\nHost: box\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xaa" * 50 + b"\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: box\r\nX: " + b"x" * 70_000, 431),
        (http("GET", "/"), 404),
        (http("GET", CHAT), 405),
        (http("POST", "/health"), 405),
        (http("GET", "/v1/../health"), 404),
        (http("POST", CHAT, b"{"), 400),
        (http("POST", CHAT, b'{"messages": 7}'), 400),
        (http("POST", CHAT, b"\xff" * 1000), 400),
        (f"POST {CHAT} HTTP/1.1\r\nHost: box\r\nContent-Length: {MOST_BODY_BYTES + 1}\r\n\r\n".encode(), 413),
        (f"POST {CHAT} HTTP/1.1\r\nHost: box\r\nContent-Length: -1\r\n\r\n".encode(), 400),
        (f"POST {CHAT} HTTP/1.1\r\nHost: box\r\nContent-Length: {'9' * 19}\r\n\r\n".encode(), 413),
        (f"POST {CHAT} HTTP/1.1\r\nHost: box\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n".encode(), 400),
        (f"POST {CHAT} HTTP/1.1\r\nHost: box\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".encode(), 400),
        (f"POST {CHAT} HTTP/1.1\r\nHost: box\r\nTransfer-Encoding: gzip\r\n\r\n".encode(), 501),
    ],
)
async def test_a_bad_request_costs_an_error_and_no_more(home: Path, data: bytes, status: int) -> None:
    async with desk_of(FakeModel(), home) as path:
        answered, body = await exchange(path, data)
        assert answered == status
        assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}
        assert (await exchange(path, http("GET", "/health")))[0] == 200


async def test_two_thousand_mutated_requests(home: Path) -> None:
    random = Random(2000)
    seeds = [
        http("POST", CHAT, chat("hi", stream=True)),
        http("POST", CHAT, chat(INTENTS[0])),
        http("GET", "/v1/models"),
    ]
    statuses = Counter[bytes]()
    async with desk_of(FakeModel(), home) as path:
        for _ in range(2000):
            answer = await throw(path, mutated(random, random.choice(seeds)))
            statuses[answer.partition(b" ")[2][:3]] += 1
        assert await complete(path, "hello")
    assert statuses[b"200"] > 100 < statuses[b"400"]
    assert not statuses[b"500"]


def mutated(random: Random, request: bytes) -> bytes:
    """A request with one to four bytes changed, pieces cut out, doubled, or filled with rubbish."""
    data = bytearray(request)
    for _ in range(random.randint(1, 4)):
        start = random.randrange(len(data) + 1)
        end = min(len(data), start + random.choice([0, 1, 1, 8, 64]))
        piece = bytes(data[start:end])
        data[start:end] = random.choice([b"", piece * 2, random.randbytes(len(piece) or 1), b"\r\n", b"0" * 40, b"["])
    return bytes(data)


async def test_a_body_that_grows_too_large_on_the_way_is_refused(home: Path) -> None:
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    head = f"POST {CHAT} HTTP/1.1\r\nHost: box\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    async with desk_of(FakeModel(), home) as path:
        async with await anyio.connect_unix(path) as stream, anyio.create_task_group() as tasks:

            async def send() -> None:
                with pytest.raises(anyio.BrokenResourceError):
                    await stream.send(head)
                    while True:
                        await stream.send(piece)

            tasks.start_soon(send)
            answer = await receive_all(stream)
            assert answer.startswith(b"HTTP/1.1 413 ")
        assert await complete(path, "hello")


async def test_clients_that_leave_early(home: Path) -> None:
    request = http("POST", CHAT, chat("hello", stream=True))
    async with desk_of(FakeModel(), home) as path:
        for length in range(0, len(request), 17):
            async with await anyio.connect_unix(path) as stream:
                await stream.send(request[:length] or b"P")
        assert await complete(path, "hello")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_frees_the_generator(home: Path, stream: bool) -> None:
    model = FakeModel(endless=True)
    async with desk_of(model, home) as path:
        async with await anyio.connect_unix(path) as client:
            await client.send(http("POST", CHAT, chat("hello", stream=stream)))
            assert await anyio.to_thread.run_sync(model.started.wait, 10)
        assert await anyio.to_thread.run_sync(model.ended.wait, 10)
        model.endless = False
        assert await complete(path, "hello")


async def test_a_client_that_only_stopped_sending_is_answered(home: Path) -> None:
    async with desk_of(FakeModel(), home) as path:
        answer = await throw(path, http("POST", CHAT, chat("hello")))
    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_one_generation_at_a_time_and_calls_need_none(home: Path) -> None:
    model = FakeModel(endless=True)
    async with desk_of(model, home) as path, anyio.create_task_group() as tasks:
        async with await anyio.connect_unix(path) as first:
            await first.send(http("POST", CHAT, chat("hello", stream=True)))
            assert await anyio.to_thread.run_sync(model.started.wait, 10)
            tasks.start_soon(complete, path, "second")
            assert (await complete(path, INTENTS[0]))["choices"][0]["finish_reason"] == "tool_calls"
            assert len(model.prompts) == 1
            model.endless = False
        await anyio.to_thread.run_sync(model.ended.wait, 10)
    assert len(model.prompts) == 2


async def test_a_connection_is_kept_and_requests_may_come_early(home: Path) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: box\r\n\r\n"
    async with desk_of(FakeModel(), home) as path, await anyio.connect_unix(path) as stream:
        await stream.send(request * 3)
        received = b""
        while received.count(b'"status":"ok"') < 3:
            received += await stream.receive()
        assert received.count(b"HTTP/1.1 200 ") == 3


async def test_a_client_that_waits_for_continue(home: Path) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "tools": TOOLS}).encode()
    request = http("POST", CHAT, body, "Expect: 100-continue\r\n")
    head = request[: -len(body)]
    async with desk_of(FakeModel(), home) as path, await anyio.connect_unix(path) as stream:
        await stream.send(head)
        assert (await stream.receive()).startswith(b"HTTP/1.1 100 ")
        await stream.send(body)
        assert (await receive_all(stream)).startswith(b"HTTP/1.1 200 ")


async def test_one_connection_too_many_is_told(home: Path) -> None:
    async with desk_of(FakeModel(), home) as path:
        async with AsyncExitStack() as clients:
            for _ in range(64):
                client = await clients.enter_async_context(await anyio.connect_unix(path))
                await client.send(b"GET /health HTTP/1.1\r\nHost: box\r\n\r\n")
                await client.receive()
            status, body = await exchange(path, http("GET", "/health"))
        assert (status, json.loads(body)["error"]["code"]) == (503, "busy")
        # The server counts a client out once it has seen it go.
        while (await exchange(path, http("GET", "/health")))[0] != 200:
            continue
