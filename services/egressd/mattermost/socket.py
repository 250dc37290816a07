"""The WebSocket of a Mattermost server: the upgrade with the token on, and then bytes both ways until either side ends.

What the client says is read: over this socket nothing of a session leaves. What the server says comes in whole
messages, with the token masked (`mattermost.frames`).
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import anyio
import anyio.abc

from egressd.config import Mattermost
from egressd.destinations import Place
from egressd.exchange import whole
from egressd.mattermost.frames import Garbage, Messages
from egressd.mattermost.named import check_spoken
from egressd.wire.dial import Upstream
from egressd.wire.door import Client
from egressd.wire.heads import Carried, came_with, for_client
from egressd.wire.http import SWITCHED, Headers, Incoming, Malformed, Outgoing, Request, Response, request_head
from egressd.wire.redact import Redactor
from egressd.wire.splice import Inward, Side, Splice
from proto.faults import Fault
from proto.role.raw import Raw

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


def upgrade(head: Request, place: Place, target: str, carries: Carried) -> Request:
    """The head that the server gets. No extension is asked for: what is compressed could not be looked at."""
    headers: Headers = [(b"Host", place.authority.encode("ascii"))]
    headers += [(name, value) for name, value in head.headers if name.lower() in _OF_THE_CLIENT]
    headers += [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"), *carries.put]
    return Request(b"GET", (place.prefix + target).encode("ascii"), headers)


class Ends(NamedTuple):
    """Both connections, and what masks the token in what comes back."""

    client: Client
    stream: Raw
    upstream: Upstream
    redactor: Redactor


async def join(request: Request, ends: Ends, answer_s: float) -> bytes | None:
    """Ask for the upgrade and tell the client; what came behind the server's yes, or None when it said no.

    Raises:
        Fault: `upstream-unreachable`; the client has been told nothing.
        Gone: the client left.

    """
    client, redactor = ends.client, ends.redactor
    answer = Outgoing(request.method, switches=True)
    try:
        with anyio.fail_after(answer_s):
            await ends.upstream.send(request_head(request))
            head, body = await whole(answer, ends.upstream, "the Mattermost server", _LONGEST_REFUSAL_BYTES)
    except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError, Malformed):
        raise Fault("upstream-unreachable", "the Mattermost server did not answer the upgrade") from None
    if head.status != SWITCHED:
        await client.send(answered(client.http, head, body, redactor))
        return None
    if b"sec-websocket-extensions" in came_with(head):
        raise Fault(
            "upstream-unreachable", "the Mattermost server uses an extension of WebSocket that was not asked for"
        )
    shown = [(name, redactor.whole(value)) for name, value in head.headers if name.lower() in _OF_THE_SERVER]
    await client.send(client.http.answer_switching(Response(SWITCHED, shown)))
    return answer.behind


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
        splice = Splice(Heard(Inward(stream), up, client.http.behind), server, limits.idle_s)

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


def answered(http: Incoming, head: Response, body: bytes, redactor: Redactor) -> bytes:
    """A server's whole answer as the client gets it."""
    mask = redactor.whole
    headers = [(mask(name), mask(value)) for name, value in for_client(head) if name.lower() != b"content-length"]
    return http.answer_whole(Response(head.status, headers, mask(head.reason)), mask(body))
