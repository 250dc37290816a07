"""One request a connection: what a server answers to good frames, bad frames, and peers that leave."""

import contextlib
import os
import resource
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from proto import frame
from proto.faults import Fault
from proto.messages.memory import MemoryBlock, MemoryBlockReply
from proto.messages.wire import Error, Ok, Ping, Request
from proto.role.call import call, stream
from proto.role.listen import listen
from proto.role.serve import Connection, Server

pytestmark = pytest.mark.anyio


class Long(Request, frozen=True, tag="long"):
    """More than the buffer of a socket holds."""

    data: bytes = b"x" * 900_000


async def _block(request: MemoryBlock, connection: Connection) -> msgspec.Struct:
    if request.trace is not None:
        raise RuntimeError("a bug")
    return MemoryBlockReply(text="# soul.md")


@asynccontextmanager
async def _served(path: Path) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Server("test", (Ping, MemoryBlock), _block).serve, listen(path))
        yield
        tasks.cancel_scope.cancel()


async def _raw(path: Path, data: bytes, *, half_close: bool = False) -> msgspec.Struct:
    async with await anyio.connect_unix(path) as connection:
        await connection.send(data)
        if half_close:
            await connection.send_eof()
        received = bytearray()
        try:
            while True:
                received += await connection.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass
    reply: msgspec.Struct = frame.Decoder((Error, Ok, MemoryBlockReply)).decode(bytes(received[4:]))
    return reply


async def test_ping_is_answered_ok(home: Path) -> None:
    async with _served(home / "s.sock"):
        assert await call(home / "s.sock", Ping(), Ok) == Ok()


async def test_a_request_is_answered_and_the_connection_closed(home: Path) -> None:
    async with (
        _served(home / "s.sock"),
        stream(home / "s.sock", MemoryBlock(), MemoryBlockReply) as answers,
    ):
        assert [answer async for answer in answers] == [MemoryBlockReply(text="# soul.md")]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (struct.pack(">I", 0), "frame-empty"),
        (struct.pack(">I", frame.MAX_FRAME + 1), "frame-too-large"),
        (struct.pack(">I", 3) + b"\xc1\xc1\xc1", "frame-undecodable"),
        (struct.pack(">I", 1) + b"\x90", "frame-undecodable"),
        (struct.pack(">I", 11) + b"\x81\xa4kind\xa4nope", "kind-unknown"),
        (struct.pack(">I", 12) + b"\x81\xa4kind\xa4ping\x00", "frame-undecodable"),
        (struct.pack(">I", 21) + b"\x82\xa4kind\xa4ping\xa4kind\xa4ping", "frame-undecodable"),
        (struct.pack(">I", 13) + b"\x82\xa4kind\xa4ping\xa1a\x01"[:13], "frame-undecodable"),
    ],
)
async def test_a_bad_frame_is_told_of_and_the_next_good_one_answered(home: Path, data: bytes, code: str) -> None:
    async with _served(home / "s.sock"):
        reply = await _raw(home / "s.sock", data)
        assert isinstance(reply, Error)
        assert reply.code == code
        assert await call(home / "s.sock", Ping(), Ok) == Ok()


async def test_a_torn_frame_is_told_of_at_once_when_the_peer_stops_sending(home: Path) -> None:
    async with _served(home / "s.sock"):
        reply = await _raw(home / "s.sock", frame.pack(Ping())[:-2], half_close=True)
        assert isinstance(reply, Error)
        assert reply.code == "frame-torn"


async def test_a_bug_in_a_desk_is_internal_and_the_daemon_lives(home: Path) -> None:
    async with _served(home / "s.sock"):
        trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
        with pytest.raises(Fault) as caught:
            await call(home / "s.sock", MemoryBlock(trace=trace), MemoryBlockReply)
        assert caught.value.code == "internal"
        assert await call(home / "s.sock", Ping(), Ok) == Ok()


async def test_more_than_64_connections_get_busy(home: Path) -> None:
    async with _served(home / "s.sock"):
        held = [await anyio.connect_unix(home / "s.sock") for _ in range(64)]
        await anyio.sleep(0.1)
        with pytest.raises(Fault) as caught:
            await call(home / "s.sock", Ping(), Ok)
        assert caught.value.code == "busy"
        for connection in held:
            await connection.aclose()
        await anyio.sleep(0.1)


async def test_a_daemon_with_no_file_left_lets_the_next_one_in_when_there_is_one(home: Path) -> None:
    path, limits = home / "s.sock", resource.getrlimit(resource.RLIMIT_NOFILE)
    async with _served(path):
        client, filled = socket.socket(socket.AF_UNIX), list[int]()
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 100, limits[1]))
            with contextlib.suppress(OSError):
                while True:
                    filled.append(os.dup(client.fileno()))
            client.connect(str(path))
            await anyio.sleep(0.05)
        finally:
            for handle in filled:
                os.close(handle)
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            client.close()
        await call(path, Ping(), Ok)


async def test_a_daemon_that_is_not_there_is_unreachable(home: Path) -> None:
    with pytest.raises(Fault) as caught:
        await call(home / "none.sock", Ping(), Ok, unreachable="memoryd-unreachable")
    assert caught.value.code == "memoryd-unreachable"


@pytest.mark.parametrize("request_", [Ping(), Long()])
async def test_a_daemon_that_does_not_read_is_waited_for_no_longer_than_it_may_take(
    home: Path, request_: msgspec.Struct
) -> None:
    with contextlib.closing(listen(home / "s.sock")), anyio.fail_after(20):
        with pytest.raises(Fault) as caught:
            await call(home / "s.sock", request_, Ok, timeout_s=0.05, unreachable="memoryd-unreachable")
        assert caught.value.code == "memoryd-unreachable"
        with pytest.raises(Fault) as caught:
            async with stream(home / "s.sock", request_, Ok, timeout_s=0.05) as answers:
                await anext(answers)
        assert caught.value.code == "peer-unreachable"
