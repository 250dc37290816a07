"""One client's connection: HTTP/1.1 by h11 over a byte stream. It knows nothing of models.

A request that cannot be read raises `Unreadable`; what it costs is bounded: 32 KiB of head, 16 MiB of body, 30 seconds.
"""

import select
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.abc
import h11
import msgspec
from anyio.abc import SocketAttribute

MOST_BODY_BYTES: Final = 16 * 1024 * 1024
_MOST_HEAD_BYTES: Final = 32 * 1024
_MOST_AHEAD_BYTES: Final = 64 * 1024
_IDLE_SECONDS: Final = 60.0
_REQUEST_SECONDS: Final = 30.0
_SEND_SECONDS: Final = 30.0
_DRAIN_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.2
_SERVER: Final = ("Server", "boxmaker-model")

Headers = list[tuple[str, str]]


class Request(msgspec.Struct, frozen=True):
    """A request as it came: everything in it is the client's word."""

    method: str
    path: str
    body: bytes


class Unreadable(Exception):
    """The client's request cannot be read; answer with this status, then close."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Connection:
    """Requests of one client, one after the other."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream
        raw: socket.socket = stream.extra(SocketAttribute.raw_socket)  # noqa: S610  (no Django here)
        self._socket = raw
        self._scope: anyio.CancelScope | None = None
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST_HEAD_BYTES)

    async def next_request(self) -> Request | None:
        """The next request, or None when the client has ended or stays silent.

        Raises:
            Unreadable: it breaks HTTP, is too large, or is not whole in time.

        """
        if self._http.our_state is h11.DONE:
            if self._http.their_state is not h11.DONE:
                return None
            self._http.start_next_cycle()
        if self._http.our_state is not h11.IDLE:
            return None
        try:
            with anyio.move_on_after(_IDLE_SECONDS):
                await self._wait_for_bytes()
                with anyio.fail_after(_REQUEST_SECONDS):
                    return await self._read()
        except h11.RemoteProtocolError as error:
            raise Unreadable(error.error_status_hint, f"the request is not HTTP/1.1: {error}") from None
        except TimeoutError:
            raise Unreadable(408, f"the request was not whole after {_REQUEST_SECONDS:.0f} seconds") from None
        return None

    async def respond(self, status: int, body: bytes, headers: Headers | None = None) -> None:
        """Send a whole JSON answer, unless an answer has begun."""
        if self._http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return
        fixed = [_SERVER, ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        closing = [] if self._http.their_state in {h11.DONE, h11.MUST_CLOSE} else [("Connection", "close")]
        response = h11.Response(status_code=status, headers=[*fixed, *closing, *(headers or [])])
        await self._send(response, h11.Data(data=body), h11.EndOfMessage())

    async def start_events(self) -> None:
        """Begin a stream of events."""
        headers = [_SERVER, ("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache")]
        await self._send(h11.Response(status_code=200, headers=headers))

    async def send_events(self, data: bytes) -> None:
        """Send some of a stream of events."""
        await self._send(h11.Data(data=data))

    async def end_events(self) -> None:
        """End a stream of events."""
        await self._send(h11.EndOfMessage())

    async def drain(self) -> None:
        """Before closing on a client that still sends: let it read the answer instead of a reset."""
        with anyio.move_on_after(_DRAIN_SECONDS):
            try:
                await self._stream.send_eof()
            except OSError:
                return
            while await self._next_bytes():
                pass

    @asynccontextmanager
    async def cancelled_when_gone(self) -> AsyncIterator[None]:
        """Cancel the block when the client closes, or takes no bytes.

        A next request that it sends early is kept for later.
        """
        async with anyio.create_task_group() as tasks:
            self._scope = tasks.cancel_scope
            tasks.start_soon(self._watch, tasks.cancel_scope)
            yield
            tasks.cancel_scope.cancel()

    async def _watch(self, scope: anyio.CancelScope) -> None:
        ahead = 0
        while ahead < _MOST_AHEAD_BYTES:
            data = await self._next_bytes()
            if not data:
                break
            self._http.receive_data(data)
            ahead += len(data)
        while not self._has_gone():  # noqa: ASYNC110  (no event tells a half-closed socket from a closed one)
            await anyio.sleep(_LOOK_SECONDS)
        scope.cancel()

    def _has_gone(self) -> bool:
        """Whether the client closed both directions; one that only stopped sending still waits for its answer."""
        poll = select.poll()
        poll.register(self._socket.fileno(), 0)
        return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))

    async def _wait_for_bytes(self) -> None:
        """Wait for the first byte of a request, if none is here yet."""
        if not self._http.trailing_data[0]:
            await self._receive()

    async def _receive(self) -> None:
        self._http.receive_data(await self._next_bytes())

    async def _next_bytes(self) -> bytes:
        """What the client sent next; empty when it has ended or gone.

        The wait comes first, and alone: anyio's `receive` on a Unix socket, cancelled while bytes arrive, sets a result
        on a cancelled future, which asyncio reports as an error of nobody.
        """
        try:
            await anyio.wait_readable(self._socket)
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return b""

    async def _read(self) -> Request | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            match self._http.next_event():
                case h11.NEED_DATA:
                    if self._http.they_are_waiting_for_100_continue:
                        await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                    await self._receive()
                case h11.Request() as head:
                    _check_length(head)
                case h11.Data(data=data):
                    body += data
                    _check_size(len(body))
                case h11.EndOfMessage() if head is not None:
                    path = head.target.decode("ascii", "replace").partition("?")[0]
                    return Request(head.method.decode("ascii", "replace"), path, bytes(body))
                case _:
                    return None

    async def _send(self, *events: h11.Event) -> None:
        """Send events in one piece; when the client has gone, or takes no bytes, cancel what is done for it."""
        if self._http.our_state is h11.ERROR:
            return
        data = b"".join(self._http.send(event) or b"" for event in events)
        try:
            with anyio.fail_after(_SEND_SECONDS):
                await self._stream.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError):
            self._http.send_failed()
            if self._scope:
                self._scope.cancel()


def _check_length(head: h11.Request) -> None:
    """Refuse a body that says that it is too large before any of it is read."""
    for name, value in head.headers:
        if name == b"content-length":
            _check_size(int(value))


def _check_size(size_bytes: int) -> None:
    if size_bytes > MOST_BODY_BYTES:
        raise Unreadable(413, f"the request body is larger than {MOST_BODY_BYTES:,} bytes")
