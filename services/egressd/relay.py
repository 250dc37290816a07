"""Relaying one call: ask, connect, send, answer. The driver of `wire.answer`, which knows the protocol.

The order is the point (contract, "Directions, again"): the call is known to be under way, then brokerd is asked, and
only then anything leaves; a name that is looked up and a greeting of TLS are bytes as well. Whatever changes after
brokerd said yes, a label or the destination itself, ends the call.
"""

import math
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import IO, Final, NamedTuple

import anyio
import anyio.lowlevel

from egressd.config import Relay
from egressd.destinations import Destinations, Place
from egressd.flights import Flight, Flights
from egressd.verdict import check
from egressd.wire.answer import Answer
from egressd.wire.dial import Upstream, dial
from egressd.wire.door import Client, Gone
from egressd.wire.warm import Warm
from proto.faults import Fault
from proto.labels import DataClass
from proto.messages.broker import EgressAsk, EgressDecision
from proto.role.raw import deadline

_PIECE_BYTES: Final = 64 << 10
_PORTION_BYTES: Final = 2 << 10
_MANY_LINES: Final = 2_000
"""Lines of chunks or of events; a piece has as many only where somebody makes crumbs."""
_AT_ONCE_BYTES: Final = 16 << 10
_CHANGED: Final = "refused: grants.toml was changed while the call was decided"

Ask = Callable[[EgressAsk], Awaitable[EgressDecision]]
"""Asks brokerd whether a call may leave now; raises Fault when it does not answer."""


class Call(NamedTuple):
    """A call that is ready to leave: the question for brokerd, the request's body, where to."""

    ask: EgressAsk
    body: IO[bytes]
    body_bytes: int
    place: Place
    ceiling: DataClass | None = None
    """What is lower than the destination's ceiling, where only a part of it is meant."""


class Relaying(NamedTuple):
    """What every call needs."""

    limits: Relay
    destinations: Destinations
    tls: ssl.SSLContext
    flights: Flights
    ask: Ask
    warm: Warm


Allowed = Callable[[EgressDecision], None]
"""Told of the decision that let a call pass, before a byte of it leaves."""


class Garbled(Exception):
    """The upstream broke off in the middle of its answer."""


async def relay(call: Call, client: Client, answer: Answer, shared: Relaying, allowed: Allowed) -> Flight:
    """Relay a call to its end; the flight says whether a label ended it, the answer what was read of it.

    Raises:
        Fault: a refusal, or an upstream that does not answer; the client has been told nothing yet.
        Garbled: the upstream broke off in the middle of its answer.

    """
    with shared.flights.enter(call.ask.session, call.ceiling or call.place.ceiling) as flight:
        allowed(await admitted(call.ask, call.place, shared))
        try:
            await _leave(call, flight, client, answer, shared)
        except (Fault, Garbled):
            # A connection that was cut from here looks as if the upstream had left.
            if not flight.label_rose:
                raise
    if flight.label_rose and answer.status is None:
        raise Fault("ceiling")
    return flight


async def _leave(call: Call, flight: Flight, client: Client, answer: Answer, shared: Relaying) -> None:
    whom = (call.place.target, call.ask.session)
    upstream = await shared.warm.take(whom) or await connected(call.place, shared)
    flight.on_cut = upstream.cut
    try:
        if not flight.label_rose:
            await _exchange(call, upstream, client, answer, shared.limits)
    finally:
        kept = call.place.target.tls and answer.reusable and not flight.label_rose
        if not (kept and shared.warm.keep(whom, upstream)):
            await upstream.aclose()


async def admitted(ask: EgressAsk, place: Place, shared: Relaying) -> EgressDecision:
    """The decision that lets bytes pass to a destination, which is then still as it was found.

    Raises:
        Fault: they may not leave.

    """
    decision = await shared.ask(ask)
    check(decision)
    # The record itself, not one like it: brokerd read the file between the two times that it was looked at here.
    if shared.destinations.find(place.name) is not place:
        raise Fault("rules-invalid", _CHANGED)
    # A label may have risen in the very moment of the answer.
    await anyio.lowlevel.checkpoint_if_cancelled()
    return decision


async def connected(place: Place, shared: Relaying) -> Upstream:
    """A connection to a destination.

    Raises:
        Fault: `upstream-unreachable`, with the reason.

    """
    try:
        return await dial(place.target, shared.tls, shared.limits.connect_s)
    except ssl.SSLCertVerificationError as error:
        raise Fault("upstream-unreachable", f"{place.name}: its certificate: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise Fault("upstream-unreachable", f"{place.name}: TLS: {error.reason}") from None
    except TimeoutError:
        raise Fault("upstream-unreachable", f"{place.name}: no connection in time") from None
    except OSError as error:
        raise Fault("upstream-unreachable", f"{place.name}: {_why(error)}") from None


def _why(error: OSError) -> str:
    cause = error.__cause__
    if isinstance(cause, OSError):
        error = cause
    return error.strerror or "no connection"


async def _exchange(call: Call, upstream: Upstream, client: Client, answer: Answer, limits: Relay) -> None:
    if call.body_bytes <= _AT_ONCE_BYTES:
        # The kernel takes so much whether the upstream reads it or not.
        await _upload(call, upstream, answer)
        await _download(upstream, client, answer, limits)
        return
    failure: Fault | Garbled | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_upload, call, upstream, answer)
        try:
            await _download(upstream, client, answer, limits)
        except (Fault, Garbled) as error:
            # Kept out of the group, which would wrap it.
            failure = error
        # An upstream may answer before it has taken the whole body.
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _upload(call: Call, upstream: Upstream, answer: Answer) -> None:
    try:
        piece = answer.to_upstream()
        while data := call.body.read(_PIECE_BYTES):
            # The head goes with the first of the body: a server that reads once has both.
            await upstream.send(piece + data)
            piece = b""
        if piece:
            await upstream.send(piece)
        answer.uploaded = True
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        # The upstream takes no more; its answer, or the end of its connection, says why.
        return


async def _download(upstream: Upstream, client: Client, answer: Answer, limits: Relay) -> None:
    answer_by, drained_by = deadline(limits.answer_s), math.inf
    while not answer.complete:
        # The upstream alone is waited for so long: the client has a clock of its own.
        by = min(answer_by if answer.status is None else deadline(limits.idle_s), drained_by)
        await _pass(await _received(upstream, answer, by), client, answer)
        if answer.read_after_bytes > limits.drain_bytes:
            raise Garbled
        if answer.client_left and drained_by == math.inf:
            drained_by = deadline(limits.drain_s)


async def _received(upstream: Upstream, answer: Answer, by: float) -> bytes:
    """What came; nothing where the connection has ended.

    Raises:
        Fault, Garbled: nothing came in time, or the connection broke.

    """
    try:
        return await upstream.receive(by)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        # A break is no end: an answer that has none of its own is not whole.
        raise _broken(answer) from None
    except TimeoutError:
        if answer.status is None:
            raise Fault("upstream-unreachable", "the destination took the request and did not answer in time") from None
        raise Garbled from None


async def _pass(data: bytes, client: Client, answer: Answer) -> None:
    for portion in _portions(data):
        out = answer.receive(portion)
        if answer.broken and answer.status is None:
            raise _broken(answer)
        try:
            await client.send(out)
        except Gone:
            answer.client_left = True
        if answer.broken:
            raise _broken(answer)
        if len(portion) == _PORTION_BYTES:
            await anyio.lowlevel.checkpoint()


def _broken(answer: Answer) -> Fault | Garbled:
    """What is raised where an answer or its connection is broken: a client told nothing yet can be told why."""
    return Fault("upstream-unreachable", answer.problem) if answer.status is None else Garbled()


def _portions(data: bytes) -> Iterator[bytes]:
    """What is read in one go: of very many small chunks little, so that nobody else waits for long."""
    size_bytes = _PORTION_BYTES if data.count(b"\n") > _MANY_LINES else len(data) or 1
    yield from (data[at : at + size_bytes] for at in range(0, len(data) or 1, size_bytes))
