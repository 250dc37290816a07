"""The WebSocket of a Mattermost server: the upgrade with the token on, and then bytes both ways until either side ends.

What the client sends goes as it is: over this socket nothing can be posted. What the server sends comes in whole
messages, with the token masked (`mattermost.frames`).
"""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.abc
import h11

from egressd.destinations import Place
from egressd.mattermost.frames import Garbage, Messages
from egressd.wire.dial import Upstream
from egressd.wire.door import Client
from egressd.wire.heads import Carried, Headers, for_client
from egressd.wire.redact import Redactor
from egressd.wire.splice import Inward, Splice
from proto.faults import Fault

_LONGEST_HEAD_BYTES: Final = 64 << 10
_LONGEST_REFUSAL_BYTES: Final = 64 << 10
_OF_THE_CLIENT: Final = frozenset({b"sec-websocket-key", b"sec-websocket-version", b"user-agent"})
_OF_THE_SERVER: Final = frozenset({b"connection", b"upgrade", b"sec-websocket-accept"})


Changed = Callable[[], Awaitable[None]]
"""Returns when the connection should not be any more."""


class Joined:
    """The server's connection as the client sees it: whole messages, and an end that is the end of both."""

    def __init__(self, upstream: Upstream, messages: Messages, first: bytes) -> None:
        self._upstream = upstream
        self._messages = messages
        self._first = first

    async def send(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            anyio.BrokenResourceError: the server takes no more.

        """
        await self._upstream.send(data)

    async def receive(self) -> bytes:
        """The next messages; none at the end.

        Raises:
            anyio.BrokenResourceError: the connection broke, or what comes is no WebSocket.

        """
        while True:
            data, self._first = self._first or await self._upstream.receive(), b""
            if not data:
                return b""
            try:
                out = self._messages.feed(data)
            except Garbage:
                raise anyio.BrokenResourceError from None
            if out:
                return out

    async def send_eof(self) -> None:
        """The client has ended: nothing that is heard now has a reader."""
        self.cut()

    def cut(self) -> None:
        """Make the connection carry nothing more, at once and from any task."""
        self._upstream.cut()


def upgrade(head: h11.Request, place: Place, target: str, carries: Carried) -> h11.Request:
    """The head that the server gets. No extension is asked for: what is compressed could not be looked at."""
    headers: Headers = [(b"Host", place.authority.encode("ascii"))]
    headers += [(name, value) for name, value in head.headers.raw_items() if name.lower() in _OF_THE_CLIENT]
    headers += [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"), *carries.put]
    return h11.Request(method=b"GET", target=place.prefix + target, headers=headers)


async def join(
    request: h11.Request,
    upstream: Upstream,
    client: Client,
    redactor: Redactor,
    most_bytes: int,
    answer_s: float,
) -> Joined | None:
    """Ask for the upgrade and tell the client; None when the server refused it, and the client was told that.

    Raises:
        Fault: `upstream-unreachable`; the client has been told nothing.
        Gone: the client left.

    """
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD_BYTES)
    try:
        with anyio.fail_after(answer_s):
            await upstream.send((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
            head, body = await _answer(http, upstream)
    except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError, h11.ProtocolError):
        raise Fault("upstream-unreachable", "the Mattermost server did not answer the upgrade") from None
    if isinstance(head, h11.Response):
        await client.send(answered(client.http, head, body, redactor))
        return None
    if any(name == b"sec-websocket-extensions" for name, _ in head.headers):
        raise Fault(
            "upstream-unreachable", "the Mattermost server uses an extension of WebSocket that was not asked for"
        )
    shown = [
        (name, redactor.whole(value)) for name, value in head.headers.raw_items() if name.lower() in _OF_THE_SERVER
    ]
    await client.send(client.http.send(h11.InformationalResponse(status_code=101, headers=shown)) or b"")
    return Joined(upstream, Messages(redactor, most_bytes), http.trailing_data[0])


async def carry(
    joined: Joined, client: Client, stream: anyio.abc.SocketStream, idle_s: float, changed: Changed
) -> None:
    """Carry bytes both ways until either side ends, both are silent for too long, or what allowed it has changed."""
    splice = Splice(Inward(stream), joined, idle_s)

    async def cut_later() -> None:
        await changed()
        splice.cut()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cut_later)
        if early := client.http.trailing_data[0]:
            await splice.up(early)
        await splice.run()
        tasks.cancel_scope.cancel()


def answered(http: h11.Connection, head: h11.Response, body: bytes, redactor: Redactor) -> bytes:
    """A server's whole answer as the client gets it."""
    mask = redactor.whole
    body = mask(body)
    headers = [(mask(name), mask(value)) for name, value in for_client(head) if name.lower() != b"content-length"]
    headers += [(b"Content-Length", str(len(body)).encode()), (b"Connection", b"close")]
    out = http.send(h11.Response(status_code=head.status_code, headers=headers, reason=mask(head.reason))) or b""
    return out + (http.send(h11.Data(data=body)) or b"") + (http.send(h11.EndOfMessage()) or b"")


async def _answer(http: h11.Connection, upstream: Upstream) -> tuple[h11.Response | h11.InformationalResponse, bytes]:
    """The head that says yes, or the whole answer that says no."""
    refused: h11.Response | None = None
    body = bytearray()
    while True:
        match http.next_event():
            case h11.NEED_DATA:
                http.receive_data(await upstream.receive())
            case h11.InformationalResponse(status_code=101) as event:
                return event, b""
            case h11.Response() as event:
                refused = event
            case h11.Data(data=data):
                body += data
                if len(body) > _LONGEST_REFUSAL_BYTES:
                    raise Fault("upstream-unreachable", "the Mattermost server refused the upgrade at great length")
            case h11.EndOfMessage() if refused is not None:
                return refused, bytes(body)
            case h11.ConnectionClosed():
                raise anyio.BrokenResourceError
            case _:
                pass
