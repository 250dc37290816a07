"""A model without weights, and a client that speaks whatever bytes it is told to."""

import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from boxmaker_model.desk import Desk
from boxmaker_model.engine import Ending, EngineError
from boxmaker_model.prompt import Prompt

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("recall", "memory", "find_tool", "call_tool")]


class FakeModel:
    """Counts words; says `pieces`. `endless` goes on until it is stopped; `broken` fails. Notes what it was given."""

    def __init__(self, *pieces: str, endless: bool = False, broken: bool = False) -> None:
        self.context_tokens = 1000
        self.pieces = pieces or ("Hel", "lo", ".")
        self.endless = endless
        self.broken = broken
        self.prompts: list[Prompt] = []
        self.started = threading.Event()
        self.ended = threading.Event()

    def count(self, text: str) -> int:
        return len(text.split())

    def generate(self, prompt: Prompt, on_text: Callable[[str], None], stopped: Callable[[], bool]) -> Ending:
        self.prompts.append(prompt)
        self.ended.clear()
        if self.broken:
            raise EngineError("the weights are damaged")
        for piece in self.pieces:
            on_text(piece)
        self.started.set()
        while self.endless and not stopped():
            self.ended.wait(0.005)
        self.ended.set()
        return Ending("stop", len(self.pieces))


@asynccontextmanager
async def desk_of(model: FakeModel, home: Path) -> AsyncIterator[Path]:
    """A desk that answers on a socket, for the length of a block; afterwards it holds no connection."""
    path = home / "model.sock"
    desk = Desk(model)
    listener = await anyio.create_unix_listener(path)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, desk.serve_client)
        yield path
        tasks.cancel_scope.cancel()
    assert desk._open == 0


def http(method: str, path: str, body: bytes = b"", headers: str = "") -> bytes:
    """The bytes of a request that ends its connection."""
    head = f"{method} {path} HTTP/1.1\r\nHost: box\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def chat(*turns: str | dict[str, Any], **fields: Any) -> bytes:
    """The body of a chat completion: texts are the owner's."""
    messages = [turn if isinstance(turn, dict) else {"role": "user", "content": turn} for turn in turns]
    return json.dumps({"messages": messages, "tools": TOOLS, **fields}).encode()


async def exchange(path: Path, data: bytes) -> tuple[int, bytes]:
    """The status and body that these bytes are answered with; 0 when the server only closed."""
    async with await anyio.connect_unix(path) as stream:
        with anyio.fail_after(20):
            try:
                await stream.send(data)
                answer = await receive_all(stream)
            except anyio.BrokenResourceError:
                return 0, b""
    head, _, body = answer.partition(b"\r\n\r\n")
    return (int(head.split(b" ")[1]), body) if head else (0, b"")


async def throw(path: Path, data: bytes) -> bytes:
    """Send bytes, say that no more come, and take whatever the server does until it closes."""
    async with await anyio.connect_unix(path) as stream:
        with anyio.fail_after(20):
            try:
                await stream.send(data)
                await stream.send_eof()
                return await receive_all(stream)
            except (anyio.BrokenResourceError, OSError):
                return b""


async def receive_all(stream: anyio.abc.ByteReceiveStream) -> bytes:
    received = bytearray()
    try:
        while True:
            received += await stream.receive()
    except anyio.EndOfStream:
        return bytes(received)


async def complete(path: Path, *turns: str | dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The answer to a chat completion that must succeed."""
    status, body = await exchange(path, http("POST", "/v1/chat/completions", chat(*turns, **fields)))
    assert status == 200, body
    answer: dict[str, Any] = json.loads(body)
    return answer


async def streamed(path: Path, *turns: str | dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """The events of a streamed completion, its end mark checked."""
    request = http("POST", "/v1/chat/completions", chat(*turns, stream=True, **fields))
    status, body = await exchange(path, request)
    assert status == 200
    datas = [line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: ")]
    assert datas.pop() == b"[DONE]"
    return [json.loads(data) for data in datas]


def joined(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The message that a stream adds up to, with its reason and usage."""
    message: dict[str, Any] = {"content": "", "calls": [], "finish": None, "usage": None}
    for event in events:
        message["usage"] = event.get("usage") or message["usage"]
        for choice in event["choices"]:
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            message["finish"] = choice["finish_reason"] or message["finish"]
            for part in delta.get("tool_calls", []):
                if "id" in part:
                    message["calls"].append([part["id"], part["function"]["name"], ""])
                message["calls"][part["index"]][2] += part["function"]["arguments"]
    return message
