"""A connection out is waited for as long as it was said, whatever is spoken over it, and so is what comes on it."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from egressd.destinations import Target
from egressd.wire.dial import dial, dial_plain, tls_context
from proto.role.raw import deadline
from tests.egressd.certificates import Authority
from tests.fakes.tls import Script, Secured, server

pytestmark = pytest.mark.anyio


def _late(connection: socket.socket) -> None:
    """Answer what comes with itself, but nothing before."""
    with contextlib.suppress(OSError):
        connection.sendall(connection.recv(100))
        connection.recv(100)


def _silent(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while connection.recv(100):
            pass


@contextlib.contextmanager
def _full() -> Iterator[int]:
    """The port of a server in whose queue no place is left."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening, contextlib.ExitStack() as clients:
        for _ in range(3):
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


@pytest.mark.parametrize("tls", [False, True])
async def test_what_does_not_come_in_time_is_late_and_what_comes_then_is_read(tmp_path: Path, tls: bool) -> None:
    authority = Authority(tmp_path)
    script: Script = Secured(authority.server("DNS:localhost"), _late) if tls else _late
    with server(script) as found:
        upstream = await dial(Target(None, "localhost", found.port, tls), tls_context(str(authority.ca_file)), 10)
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await upstream.receive(deadline(0.02))
        await upstream.send(b"after all")
        assert await upstream.receive(deadline(10)) == b"after all"
        await upstream.aclose()


@pytest.mark.parametrize("tls", [False, True])
async def test_who_is_not_let_in_waits_no_longer_than_was_said(tls: bool) -> None:
    with _full() as port:
        began = anyio.current_time()
        with pytest.raises(TimeoutError):
            await dial(Target(None, "127.0.0.1", port, tls), tls_context(None), 0.05)
        assert anyio.current_time() - began < 2


async def test_who_is_not_greeted_back_waits_no_longer_than_was_said() -> None:
    with server(_silent) as found, pytest.raises(TimeoutError):
        await dial(Target(None, "localhost", found.port, tls=True), tls_context(None), 0.05)


async def test_of_some_addresses_the_first_that_answers_is_taken_and_of_none_it_is_said_why() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        await dial(Target(None, "127.0.0.1", port, tls=False), tls_context(None), 10)
    with server(_late) as found:
        upstream = await dial_plain(["127.0.0.2", "0.0.0.1", "127.0.0.1"], found.port)
        await upstream.send(b"here")
        assert await upstream.receive() == b"here"
        await upstream.aclose()
