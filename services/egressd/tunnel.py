"""CONNECT on a session's own socket: TLS to a host that the owner has named, end to end, and not read.

The order is the point. Before the 200 the ceiling is asked, so that a client reads why it may not. Then the TLS hello
is read, and only when it names the host that was allowed, and brokerd has been asked once more, anything leaves: the
lookup of the name, the connection, the hello. From then on bytes are carried and counted, and nothing more is known.
"""

import contextlib
import secrets
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Protocol

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec

from egressd.config import Tunnel
from egressd.destinations import Destinations, Place
from egressd.flights import Flight, Flights
from egressd.store import Ended
from egressd.verdict import check
from egressd.wire import connect, hello
from egressd.wire.addresses import is_public
from egressd.wire.dial import Resolver, Upstream, dial_plain, resolve
from egressd.wire.door import Gone
from egressd.wire.greeting import Greeting
from egressd.wire.http import Incoming, Request
from egressd.wire.refusal import status_of
from egressd.wire.splice import Inward, Splice
from proto.faults import Fault
from proto.messages.broker import EgressAsk, EgressDecision
from proto.role.clock import Clock, stamp
from proto.role.log import logger
from proto.role.raw import Raw

_MOST_ADDRESSES: Final = 3
_LAST_WORD_S: Final = 1.0
_ACCESS_DENIED: Final = 49
_INTERNAL_ERROR: Final = 80

Ask = Callable[[EgressAsk], Awaitable[EgressDecision]]
"""Asks brokerd whether a session's bytes may leave now; raises Fault when it does not answer."""


class TunnelBegun(msgspec.Struct, frozen=True, kw_only=True):
    """A tunnel that is not silent, or is refused; `authority` is HOST:PORT, `began` RFC 3339 in UTC."""

    call: str
    session: str
    destination: str
    authority: str
    began: str


class TunnelSettled(msgspec.Struct, frozen=True, kw_only=True):
    """How a tunnel ended: 200, or the status of what it was refused for; the bytes that were carried each way."""

    call: str
    status: int
    ended: Ended
    up_bytes: int
    down_bytes: int
    finished: str


class Booking(Protocol):
    """Keeps a row for each tunnel."""

    def begin(self, tunnel: TunnelBegun) -> None:
        """Keep that a tunnel began."""
        ...

    def settle(self, tunnel: TunnelSettled) -> None:
        """Keep how it ended."""
        ...


class _Tunnel:
    """One tunnel under way: whose, where to, what of the client waits here, and what has become of it."""

    def __init__(
        self, session: str, destination: str, authority: connect.Authority, client: Inward, greeting: Greeting
    ) -> None:
        self.call = f"tunnel-{secrets.token_hex(8)}"
        self.session = session
        self.destination = destination
        self.authority = authority
        self.client = client
        self.greeting = greeting
        self.trace: str | None = None
        self.accepted = False
        self.begun = False
        self.splice: Splice | None = None
        self.status = 0
        self.ended: Ended = "stopped"

    @property
    def carried_bytes(self) -> tuple[int, int]:
        """How many bytes went up and down."""
        return (0, 0) if self.splice is None else (self.splice.up_bytes, self.splice.down_bytes)


class Tunnels:
    """Opens tunnels, and ends those of a session that is closed."""

    def __init__(
        self,
        *,
        limits: Tunnel,
        destinations: Destinations,
        flights: Flights,
        ask: Ask,
        booking: Booking,
        clock: Clock,
        resolver: Resolver = resolve,
    ) -> None:
        self._limits = limits
        self._destinations = destinations
        self._flights = flights
        self._ask = ask
        self._booking = booking
        self._clock = clock
        self._resolve = resolver
        self._flying: set[Flight] = set()

    async def run(
        self,
        head: Request,
        http: Incoming,
        stream: Raw,
        session: str,
        destination: str,
        trace: str | None = None,
    ) -> None:
        """Serve one CONNECT to the end of its tunnel; `http` has given the head and nothing more.

        Raises:
            Fault: a refusal; the client has been told nothing yet.
            Gone: the client left before it was told anything.

        """
        authority = connect.asked_for(head)
        client = Inward(stream)
        greeting = Greeting(client, authority.host, self._limits.hello_s)
        tunnel = _Tunnel(session, destination, authority, client, greeting)
        tunnel.trace = trace
        with self._booked(tunnel):
            place = self._destinations.find(destination)
            with self._entered(session, place) as flight:
                await self._allowed(tunnel, place)
                await self._accept(tunnel, http)
                await self._opened(tunnel, place, flight)
            if flight.scope.cancel_called:
                await self._stopped(tunnel, flight)

    def close(self, session: str) -> None:
        """End a session's tunnels: it is closed."""
        for flight in [one for one in self._flying if one.session == session]:
            if flight.on_cut is not None:
                flight.on_cut()
            flight.scope.cancel()

    async def _accept(self, tunnel: _Tunnel, http: Incoming) -> None:
        answer, behind = connect.accepted(http)
        tunnel.greeting.hold(behind)
        try:
            # Begun and not finished, it would leave the client with neither an answer nor a tunnel.
            with anyio.CancelScope(shield=True), anyio.fail_after(_LAST_WORD_S):
                await tunnel.client.send(answer)
        except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise Gone from None
        tunnel.accepted = True

    async def _opened(self, tunnel: _Tunnel, place: Place, flight: Flight) -> None:
        """All that comes after the 200. What is refused there is told by an alert of TLS."""
        tunnel.status = 200
        try:
            await self._conversation(tunnel, place, flight)
        except Gone:
            tunnel.ended = "client-left"
        except hello.Refused as refused:
            await self._refused(tunnel, Fault("tunnel-hello", refused.sentence), refused.alert)
        except Fault as fault:
            alert = _ACCESS_DENIED if status_of(fault) == 403 else _INTERNAL_ERROR
            await self._refused(tunnel, fault, alert)

    async def _conversation(self, tunnel: _Tunnel, place: Place, flight: Flight) -> None:
        if not await tunnel.greeting.heard(self._limits.idle_s):
            tunnel.ended = "complete"
            return
        self._begin(tunnel)
        await tunnel.greeting.read()
        await self._allowed(tunnel, place)
        upstream = await self._dialled(tunnel.authority)
        try:
            tunnel.splice = Splice(tunnel.client, upstream, self._limits.idle_s)
            flight.on_cut = tunnel.splice.cut
            if not flight.scope.cancel_called:
                await tunnel.greeting.send(tunnel.splice, upstream, self._limits.connect_s)
                end = await tunnel.splice.run()
                tunnel.ended = "stopped" if end == "idle" else end
        finally:
            await upstream.aclose()

    async def _allowed(self, tunnel: _Tunnel, place: Place) -> None:
        asked = EgressAsk(
            session=tunnel.session,
            call=tunnel.call,
            destination=tunnel.destination,
            method="CONNECT",
            path=str(tunnel.authority),
            trace=tunnel.trace,
            what="tunnel",
        )
        # brokerd is asked for what is not in the list as well: its answer is the line in the audit log.
        decision = await self._ask(asked)
        if tunnel.authority.is_address:
            raise Fault("tunnel-host", "refused: a tunnel leads to a host's name, not to an address")
        check(decision)
        if not place.rule.names_tunnel(*tunnel.authority):
            raise Fault("tunnel-host")
        if self._destinations.find(tunnel.destination) is not place:
            raise Fault("rules-invalid", "refused: grants.toml was changed while the tunnel was decided")
        # A label may have risen in the very moment of the answer.
        await anyio.lowlevel.checkpoint_if_cancelled()

    async def _dialled(self, authority: connect.Authority) -> Upstream:
        """A connection to an address that was checked, as a fetch has it."""
        try:
            with anyio.fail_after(self._limits.connect_s):
                addresses = await self._resolve(*authority)
                inside = authority.host in self._limits.inside
                if not (inside or all(map(is_public, addresses))):
                    raise Fault("tunnel-host", "refused: the tunnel's host has an address that is not a public one")
                return await dial_plain(addresses[:_MOST_ADDRESSES], authority.port)
        except (TimeoutError, OSError, UnicodeError):
            raise Fault("upstream-unreachable", f"{authority}: no connection") from None

    async def _refused(self, tunnel: _Tunnel, fault: Fault, alert: int | None) -> None:
        tunnel.status, tunnel.ended = status_of(fault), _ended(fault)
        logger().info("tunnel-refused", **_named(tunnel), code=fault.code, reason=fault.message)
        await _last_word(tunnel, alert)

    async def _stopped(self, tunnel: _Tunnel, flight: Flight) -> None:
        """The session's label rose above the ceiling, or the session was closed."""
        if not tunnel.accepted:
            raise Fault("ceiling" if flight.label_rose else "session-closed")
        tunnel.ended = "label-rose" if flight.label_rose else "stopped"
        await _last_word(tunnel, _ACCESS_DENIED)

    @contextlib.contextmanager
    def _entered(self, session: str, place: Place) -> Iterator[Flight]:
        with self._flights.enter(session, place.ceiling) as flight:
            self._flying.add(flight)
            try:
                yield flight
            finally:
                self._flying.discard(flight)

    @contextlib.contextmanager
    def _booked(self, tunnel: _Tunnel) -> Iterator[None]:
        """The tunnel's row, settled whatever ends it; none for a tunnel that was opened and never used."""
        try:
            yield
        except Fault as fault:
            self._begin(tunnel)
            tunnel.status, tunnel.ended = status_of(fault), _ended(fault)
            raise
        finally:
            if tunnel.begun:
                self._settle(tunnel)

    def _begin(self, tunnel: _Tunnel) -> None:
        tunnel.begun = True
        began = TunnelBegun(
            call=tunnel.call,
            session=tunnel.session,
            destination=tunnel.destination,
            authority=str(tunnel.authority),
            began=stamp(self._clock()),
        )
        self._booking.begin(began)

    def _settle(self, tunnel: _Tunnel) -> None:
        up_bytes, down_bytes = tunnel.carried_bytes
        settled = TunnelSettled(
            call=tunnel.call,
            status=tunnel.status,
            ended=tunnel.ended,
            up_bytes=up_bytes,
            down_bytes=down_bytes,
            finished=stamp(self._clock()),
        )
        self._booking.settle(settled)
        if tunnel.splice is not None:
            logger().info("tunnel", **_named(tunnel), ended=tunnel.ended, up_bytes=up_bytes, down_bytes=down_bytes)


def _ended(fault: Fault) -> Ended:
    return "refused" if status_of(fault) == 403 else "failed"


def _named(tunnel: _Tunnel) -> dict[str, str]:
    """What a line of the log says of every tunnel; the host is one of the owner's list."""
    return {
        "session": tunnel.session,
        "call": tunnel.call,
        "destination": tunnel.destination,
        "host": str(tunnel.authority),
    }


async def _last_word(tunnel: _Tunnel, alert: int | None) -> None:
    """Tell a client why, in its own protocol, unless it is told something else already."""
    begun = tunnel.splice is not None and tunnel.splice.down_bytes > 0 and tunnel.ended != "refused"
    with anyio.move_on_after(_LAST_WORD_S), contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        if alert is not None and not begun:
            await tunnel.client.send(hello.alert(alert))
        await tunnel.client.send_eof()
