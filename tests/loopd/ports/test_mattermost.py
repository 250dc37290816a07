"""The port to Mattermost: what is asked in whose name, and what comes over the WebSocket however it is cut."""

import base64
import hashlib
import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from loopd.ports.mattermost import Gone, MattermostPort, Message, Refused, Sign, Socket

pytestmark = pytest.mark.anyio
Server = Callable[[anyio.abc.SocketStream], Any]


@asynccontextmanager
async def serving(home: Path, server: Server) -> Any:
    """A port to a server that is one function."""
    path = home / "e.sock"

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await server(stream)

    async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield MattermostPort(path, "chat", timeout_s=2.0)
        tasks.cancel_scope.cancel()


async def head(stream: anyio.abc.SocketStream) -> str:
    """The head of a request."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    return data.decode()


def accepted(asked: str) -> bytes:
    """The answer to an upgrade (RFC 6455, 4.2.2)."""
    (key,) = [line.partition(": ")[2] for line in asked.split("\r\n") if line.lower().startswith("sec-websocket-key:")]
    digest = hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", usedforsecurity=False).digest()
    accept = base64.b64encode(digest).decode()
    return (
        f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\n\r\n"
    ).encode()


def text(words: str, *, final: bool = True, opcode: int = 1) -> bytes:
    """A frame of the server's (RFC 6455, 5.2)."""
    data = words.encode()
    size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2, "big")
    return bytes([opcode | (0x80 if final else 0)]) + size + data


async def take(socket: Socket, found: list[Message | Sign]) -> None:
    """Everything that comes."""
    async for event in socket.events():
        found.append(event)  # noqa: PERF401  (what came before the end counts)


@pytest.mark.parametrize("cut", [1, 7, 10_000])
async def test_what_comes_with_the_upgrade_s_answer_is_heard(home: Path, cut: int) -> None:
    async def server(stream: anyio.abc.SocketStream) -> None:
        asked = await head(stream)
        assert asked.startswith("GET /chat/api/v4/websocket HTTP/1.1\r\n")
        assert "x-boxmaker-channel: mattermost" in asked.lower()
        data = accepted(asked) + text("hello") + text("wor", final=False) + text("ld", opcode=0) + text("", opcode=9)
        for begin in range(0, len(data), cut):
            await stream.send(data[begin : begin + cut])
        await stream.send(text(json.dumps({"long": "x" * 500})))
        await stream.receive()
        await stream.send(bytes([0x88, 2]) + (1001).to_bytes(2, "big"))

    async with serving(home, server) as port:
        socket = await port.socket()
        found: list[Message | Sign] = []
        with pytest.raises(Gone, match="1001"):
            await take(socket, found)
        assert found[:3] == [Message("hello"), Message("world"), Sign()]
        assert isinstance(found[3], Message)
        await socket.close()


@pytest.mark.parametrize("before", [b"", text("", opcode=9)])
async def test_a_connection_that_is_closed_as_something_is_sent_is_gone(home: Path, before: bytes) -> None:
    """A server that ends asks whether we are there and closes in the same breath."""

    async def server(stream: anyio.abc.SocketStream) -> None:
        goodbye = bytes([0x88, 2]) + (1001).to_bytes(2, "big")
        await stream.send(accepted(await head(stream)) + before + goodbye)
        await stream.receive()

    async with serving(home, server) as port:
        socket = await port.socket()
        with pytest.raises(Gone):
            await take(socket, [])
        with pytest.raises(Gone):
            await socket.ping()
        await socket.close()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", b"garbage\r\n\r\n"])
async def test_an_answer_that_is_none_is_gone(home: Path, answer: bytes) -> None:
    async def server(stream: anyio.abc.SocketStream) -> None:
        await head(stream)
        if answer:
            await stream.send(answer)
        await stream.aclose()

    async with serving(home, server) as port:
        with pytest.raises(Gone):
            await port.ask("GET", "users/me")


async def test_an_upgrade_that_is_refused_tells_why(home: Path) -> None:
    async def server(stream: anyio.abc.SocketStream) -> None:
        await head(stream)
        await stream.send(b"HTTP/1.1 429 Slow\r\nX-Ratelimit-Reset: 3\r\nContent-Length: 4\r\n\r\nslow")

    async with serving(home, server) as port:
        with pytest.raises(Refused) as caught:
            await port.socket()
        assert (caught.value.reply.status, caught.value.reply.body) == (429, b"slow")
        assert caught.value.reply.headers["x-ratelimit-reset"] == "3"


async def test_words_of_a_session_bear_its_name_and_reading_does_not(home: Path) -> None:
    heads: list[str] = []

    async def server(stream: anyio.abc.SocketStream) -> None:
        heads.append((await head(stream)).lower())
        await stream.send(b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1}')

    async with serving(home, server) as port:
        assert (await port.ask("GET", "users/me")).value == {"a": 1}
        await port.ask("POST", "posts", b"{}", "mm-" + "a" * 26)
    assert "x-boxmaker-channel: mattermost" in heads[0]
    assert "x-boxmaker-session" not in heads[0]
    assert f"x-boxmaker-session: mm-{'a' * 26}" in heads[1]
    assert "x-boxmaker-channel" not in heads[1]


async def test_nobody_there_is_gone(home: Path) -> None:
    port = MattermostPort(home / "nothing.sock", "chat")
    with pytest.raises(Gone):
        await port.ask("GET", "users/me")
    with pytest.raises(Gone):
        await port.socket()
