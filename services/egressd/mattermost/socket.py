"""The WebSocket of a Mattermost server: the upgrade with the token on, and then bytes both ways until either side ends.

What the client says is read: over this socket nothing of a session leaves. What the server says comes in whole
messages, with the token masked (`mattermost.frames`).
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import anyio
import anyio.abc
import h11

from egressd.config import Mattermost
from egressd.destinations import Place
from egressd.mattermost.frames import Garbage, Messages
from egressd.mattermost.named import check_spoken
from egressd.wire.dial import Upstream
from egressd.wire.door import Client
from egressd.wire.heads import Carried, Headers, for_client
from egressd.wire.redact import Redactor
from egressd.wire.splice import Inward, Side, Splice
from proto.faults import Fault
from proto.role.raw import Raw

_LONGEST_HEAD_BYTES: Final = 64 << 10
_LONGEST_REFUSAL_BYTES: Final = 64 << 10
_LONGEST_SPOKEN_BYTES: Final = 4 << 10
_OF_THE_CLIENT: Final = frozenset({b"sec-websocket-key", b"sec-websocket-version", b"user-agent"})
_OF_THE_SERVER: Final = frozenset({b"connection", b"upgrade", b"sec-websocket-accept"})


Changed = Callable[[], Awaitable[None]]
"""Returns when the connection should not be any more."""


class Heard:
    """One side as the other hears it: in whole messages that were looked at. `ended` is told of the other's end."""

    def __init__(self, side: Side, messages: Messages, first: bytes, ended: Callable[[], None] | None = None) -> None:
        self._side = side
        self._messages = messages
        self._first = first
        self._ended = ended

    async def send(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            anyio.BrokenResourceError: the side takes no more.

        """
        await self._side.send(data)

    async def receive(self) -> bytes:
        """The next messages; none at the end.

        Raises:
            anyio.BrokenResourceError: the connection broke, or what comes must not go on.

        """
        while True:
            data, self._first = self._first or await self._side.receive(), b""
            if not data:
                return b""
            try:
                out = self._messages.feed(data)
            except Garbage:
                raise anyio.BrokenResourceError from None
            if out:
                return out

    async def send_eof(self) -> None:
        """Tell the side that nothing more comes."""
        if self._ended is not None:
            self._ended()
        else:
            await self._side.send_eof()

    def cut(self) -> None:
        """Make the connection carry nothing more, at once and from any task."""
        self._side.cut()


def upgrade(head: h11.Request, place: Place, target: str, carries: Carried) -> h11.Request:
    """The head that the server gets. No extension is asked for: what is compressed could not be looked at."""
    headers: Headers = [(b"Host", place.authority.encode("ascii"))]
    headers += [(name, value) for name, value in head.headers.raw_items() if name.lower() in _OF_THE_CLIENT]
    headers += [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"), *carries.put]
    return h11.Request(method=b"GET", target=place.prefix + target, headers=headers)


class Ends(NamedTuple):
    """Both connections, and what masks the token in what comes back."""

    client: Client
    stream: Raw
    upstream: Upstream
    redactor: Redactor


async def join(request: h11.Request, ends: Ends, answer_s: float) -> bytes | None:
    """Ask for the upgrade and tell the client; what came behind the server's yes, or None when it said no.

    Raises:
        Fault: `upstream-unreachable`; the client has been told nothing.
        Gone: the client left.

    """
    client, redactor = ends.client, ends.redactor
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD_BYTES)
    try:
        with anyio.fail_after(answer_s):
            await ends.upstream.send((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
            head, body = await _answer(http, ends.upstream)
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
    return http.trailing_data[0]


async def carry(ends: Ends, first: bytes, limits: Mattermost, changed: Changed) -> None:
    """Carry messages both ways until either side ends, both are silent for too long, or what allowed it has changed.

    `first` is what came with the server's yes.
    """
    client, stream, upstream, redactor = ends
    down = Messages(redactor.whole, redactor.whole, limits.message_bytes)
    up = Messages(_spoken, bytes, _LONGEST_SPOKEN_BYTES, of_client=True)
    async with anyio.create_task_group() as tasks:
        # A WebSocket has no half, and TLS none either: when the client has ended, nothing that comes has a reader.
        server = Heard(upstream, down, first, tasks.cancel_scope.cancel)
        splice = Splice(Heard(Inward(stream), up, client.http.trailing_data[0]), server, limits.idle_s)

        async def cut_later() -> None:
            await changed()
            splice.cut()

        tasks.start_soon(cut_later)
        await splice.run()
        tasks.cancel_scope.cancel()


def _spoken(data: bytes) -> bytes:
    try:
        check_spoken(data)
    except Fault as fault:
        raise Garbage(fault.message) from None
    return data


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
