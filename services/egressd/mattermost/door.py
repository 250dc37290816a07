"""What loopd asks of a Mattermost server: found in the table, read, asked about, relayed.

A post is asked about with its channel and whether the owner alone reads it there. Where the request does not say the
channel, the server is asked once for each post, and once for each channel what kind it is.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final, Literal, NamedTuple

import anyio
import anyio.abc

from egressd.auth import auth_of, carried
from egressd.config import Mattermost as Limits
from egressd.credentials import Credentials
from egressd.destinations import Place
from egressd.exchange import Exchanged, exchange
from egressd.mattermost.known import Known
from egressd.mattermost.named import Named, named
from egressd.mattermost.routes import Route, route
from egressd.mattermost.socket import Ends, answered, carry, join, upgrade
from egressd.relay import Call, Garbled, Relaying, admitted, connected, relay
from egressd.wire.answer import Answer
from egressd.wire.door import Client
from egressd.wire.heads import Asked, Carried, for_upstream, is_upgrade
from egressd.wire.http import Request, Response
from egressd.wire.redact import Redactor
from proto.faults import Fault
from proto.labels import DataClass
from proto.messages.broker import EgressAsk
from proto.role import trace
from proto.role.raw import Raw

_API: Final = "mattermost"
_PREFIX: Final = "/api/v4/"
_LONGEST_JSON_BYTES: Final = 1 << 20
_LONGEST_LOOK_BYTES: Final = 1 << 20
_LOOK_WITHIN_S: Final = 20.0
_LOOKED_AGAIN_S: Final = 1.0


class _Answered(Exception):
    """The server answered a question of egressd's own with something else than 200: that is the client's answer."""

    def __init__(self, head: Response, body: bytes) -> None:
        super().__init__()
        self.head = head
        self.body = body


class _Ready(NamedTuple):
    """A request whose body is here."""

    asked: Asked
    head: Request
    place: Place
    route: Route
    carries: Carried
    named: Named

    @property
    def session(self) -> str | None:
        """Whose it is; None for what the connection reads for itself."""
        return self.asked.session or None


class Mattermost:
    """Relays to Mattermost servers."""

    def __init__(self, credentials: Credentials, relaying: Relaying, limits: Limits) -> None:
        self._credentials = credentials
        self._relaying = relaying
        self._limits = limits
        self._known: dict[str, tuple[Place, Carried, Known]] = {}
        self._open = 0

    def serves(self, destination: str) -> bool:
        """Whether a destination is a Mattermost server.

        Raises:
            Fault: `rules-invalid`, `destination-unknown`.

        """
        return self._relaying.destinations.find(destination).rule.is_mattermost

    async def run(self, asked: Asked, head: Request, client: Client, stream: Raw) -> None:
        """Relay one request, or join a WebSocket to its end.

        Raises:
            Fault: a refusal; the client has been told nothing yet.
            Gone: the client left before its request was whole.

        """
        client.api = _API
        trace.follow(asked.trace)
        found = _found(asked)
        with await client.body(self._most_bytes(found)) as body:
            # Looked up again: the owner may have changed the file while the body came.
            place = self._relaying.destinations.find(asked.destination)
            if not place.rule.is_mattermost:
                raise Fault("route-unknown")
            carries = self._carries(asked, place)
            data = b"" if found.form == "bytes" else body.read()
            told = named(found, asked.query.removeprefix("?"), data)
            ready = _Ready(asked, head, place, found, carries, told)
            if found.what == "socket":
                with self._one_more():
                    await self._joined(ready, client, stream)
                return
            try:
                await self._relayed(ready, body, client)
            except _Answered as answer:
                await client.send(answered(client.http, answer.head, answer.body, Redactor(*carries.secrets)))

    def _most_bytes(self, found: Route) -> int | None:
        return self._limits.file_bytes if found.form == "bytes" else _LONGEST_JSON_BYTES

    async def _relayed(self, ready: _Ready, body: IO[bytes], client: Client) -> None:
        size_bytes = body.seek(0, os.SEEK_END)
        body.seek(0)
        ask, ceiling = await self._ask(ready)
        keep = ready.place.target.tls
        target = ready.place.prefix + ready.asked.target
        request = for_upstream(ready.head, _API, ready.place.authority, target, ready.carries, size_bytes, keep=keep)
        answer = Answer(client.http, request, None, Redactor(*ready.carries.secrets))
        call = Call(ask, body, size_bytes, ready.place, ceiling)
        try:
            await relay(call, client, answer, self._relaying, lambda _: None)
        except Garbled:
            # The client sees an answer that breaks off.
            return

    async def _ask(self, ready: _Ready) -> tuple[EgressAsk, DataClass | None]:
        """The question for brokerd, and the ceiling below which a label that rises ends the request."""
        if ready.route.what != "post":
            return _question(ready, "read", ready.asked.method, ready.asked.path), None

        async def look(path: str) -> bytes:
            return await self._look(ready, _PREFIX + path)

        known, rules = self._known_of(ready), self._relaying.destinations.mattermost
        channel = ready.named.channel or await known.channel_of(ready.named.post or "", look)
        direct = rules.owner is not None and await known.is_direct(channel, rules.owner, look)
        ceiling = rules.ceiling(channel, direct=direct)
        lower = min(ceiling, ready.place.ceiling, key=lambda class_: class_.rank)
        return _question(ready, "post", ready.asked.method, ready.asked.path, channel, direct=direct), lower

    async def _look(self, ready: _Ready, path: str) -> bytes:
        """What the server says at a path; asked of brokerd like anything that leaves.

        Raises:
            Fault: it may not be asked, or does not answer.
            _Answered: with another status than 200.

        """
        place, shared = ready.place, self._relaying
        own = Request(b"GET", path.encode("ascii"), [(b"Accept", b"application/json")])
        request = for_upstream(own, _API, place.authority, place.prefix + path, ready.carries, 0)
        found: Exchanged | None = None
        with shared.flights.enter(ready.session, place.ceiling) as flight:
            await admitted(_question(ready, "read", "GET", path), place, shared)
            upstream = await connected(place, shared)
            flight.on_cut = upstream.cut
            found = await exchange(request, upstream, place.name, _LONGEST_LOOK_BYTES, _LOOK_WITHIN_S)
        if found is None or flight.label_rose:
            raise Fault("ceiling")
        if found.head.status != 200:
            raise _Answered(found.head, found.body)
        return found.body

    async def _joined(self, ready: _Ready, client: Client, stream: Raw) -> None:
        place, shared = ready.place, self._relaying
        await admitted(_question(ready, "read", "GET", ready.asked.path), place, shared)
        upstream = await connected(place, shared)
        try:
            request = upgrade(ready.head, place, ready.asked.target, ready.carries)
            ends = Ends(client, stream, upstream, Redactor(*ready.carries.secrets))
            first = await join(request, ends, shared.limits.connect_s)
            if first is not None:
                await carry(ends, first, self._limits, lambda: self._changed(ready))
        finally:
            await upstream.aclose()

    async def _changed(self, ready: _Ready) -> None:
        """Return when the destination, or its token, is not what it was when the connection was allowed."""
        while True:
            await anyio.sleep(_LOOKED_AGAIN_S)
            try:
                place = self._relaying.destinations.find(ready.place.name)
                if place is not ready.place or self._carries(ready.asked, place) != ready.carries:
                    return
            except Fault:
                return

    def _carries(self, asked: Asked, place: Place) -> Carried:
        return carried(auth_of(asked, place), _API, place, self._credentials)

    def _known_of(self, ready: _Ready) -> Known:
        """What is known of a server, as the bot whose token it is."""
        place, carries, known = self._known.get(ready.place.name, (None, None, Known()))
        if place is not ready.place or carries != ready.carries:
            known = Known()
            self._known[ready.place.name] = (ready.place, ready.carries, known)
        return known

    @contextmanager
    def _one_more(self) -> Iterator[None]:
        if self._open >= self._limits.sockets:
            raise Fault("busy")
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1


def _found(asked: Asked) -> Route:
    found = route(asked.method, asked.path)
    if found is None:
        raise Fault("route-unknown")
    if found.what == "post" and not asked.session:
        raise Fault("request-invalid", "what is posted is a session's: the request needs its X-Boxmaker-Session")
    if (found.what == "socket") is not is_upgrade(asked.headers):
        raise Fault("websocket", "a WebSocket is at /api/v4/websocket, and nothing else is there")
    return found


def _question(
    ready: _Ready,
    what: Literal["read", "post"],
    method: str,
    path: str,
    channel: str | None = None,
    *,
    direct: bool = False,
) -> EgressAsk:
    return EgressAsk(
        session=ready.session,
        call=f"{what}-{secrets.token_hex(8)}",
        destination=ready.place.name,
        method=method,
        path=path,
        what=what,
        channel=channel,
        direct=direct,
    )
