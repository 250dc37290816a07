"""One call of a client, from its head to its row: find, spool, read, rewrite, book, relay, settle."""

import os
import secrets
from collections.abc import Sequence
from typing import IO, Final, NamedTuple

import anyio

from egressd import hosted, observed
from egressd.auth import auth_of, carried
from egressd.credentials import Credentials
from egressd.destinations import Place
from egressd.meter.usage import Usage
from egressd.named import Named, named
from egressd.ports import Beginning, Books, Contexts, Ending, Left, Recorder, Reserved
from egressd.relay import Call, Garbled, Relaying, relay
from egressd.rewrite import rewritten
from egressd.routes import Route, api_of, route
from egressd.store import Ended
from egressd.wire.answer import Answer
from egressd.wire.door import Client, Gone
from egressd.wire.heads import Asked, Carried, check_model, for_upstream, likely, named_headers, own_secrets
from egressd.wire.http import Request, Response
from egressd.wire.redact import Redactor
from egressd.wire.refusal import status_of
from proto.faults import Fault
from proto.messages.broker import EgressAsk, EgressDecision
from proto.role import trace
from proto.rules import Auth

_READ_IN_PLACE_BYTES: Final = 1 << 20
_MOST_READ_AT_ONCE: Final = 2
_MOST_TOOLS_TOLD: Final = 50
_NO_ANSWER: Final = frozenset({"upstream-unreachable", "internal"})


class _Ready(NamedTuple):
    """A call whose body is here, with all that is known of it before it is booked."""

    id: str
    asked: Asked
    head: Request
    body: IO[bytes]
    body_bytes: int
    place: Place
    route: Route
    auth: Auth
    named: Named

    @property
    def target(self) -> str:
        """The path and query that leave, behind the destination's own prefix."""
        return self.route.target or self.asked.target


class _Outcome:
    """What becomes of a call."""

    def __init__(self) -> None:
        self.status = 0
        self.ended: Ended = "stopped"
        self.answer: Answer | None = None
        self.recorder: Recorder | None = None


class Calls:
    """Runs calls."""

    def __init__(self, credentials: Credentials, books: Books, relaying: Relaying, contexts: Contexts) -> None:
        self._credentials = credentials
        self._books = books
        self._relaying = relaying
        self._contexts = contexts
        self._reading = anyio.CapacityLimiter(_MOST_READ_AT_ONCE)

    async def run(self, asked: Asked, head: Request, client: Client) -> None:
        """Relay one call and book it.

        Raises:
            Fault: a refusal; the client has been told nothing yet, and `client.api` says in which shape it is told.
            Gone: the client left before its request was whole.

        """
        trace.follow(asked.trace)
        began_ns = trace.now_ns()
        place = self._relaying.destinations.find(asked.destination)
        found = _routed(asked, place, client)
        if found.what == "here":
            await client.send(client.http.answer_whole(Response(200, []), b""))
            return
        check_model(asked)
        at_once = client.http.whole
        with await client.body() as body:
            if not at_once and (looked_up := self._relaying.destinations.find(asked.destination)) is not place:
                # The owner has changed the file while the body came.
                place, found = looked_up, _routed(asked, looked_up, client)
            auth = auth_of(asked, place)
            read, size_bytes = await self._read(found, body, place)
            read = self._masked(read, auth, found, place)
            call_id = f"model-{secrets.token_hex(8)}"
            call = _Ready(call_id, asked, head, body, size_bytes, place, found, auth, read)
            if found.what == "call":
                with trace.span(observed.NAME, "client", began_ns):
                    await self._booked(call, client)
            else:
                await self._relayed(call, client, None, _Outcome())

    async def _read(self, found: Route, body: IO[bytes], place: Place) -> tuple[Named, int]:
        """What a body names, and how many bytes it has; it is changed where the destination wants it."""
        quirks = place.rule.quirks
        size_bytes = body.seek(0, os.SEEK_END)
        if found.what != "call" and not size_bytes:
            return Named(found.model), 0
        if size_bytes > _READ_IN_PLACE_BYTES:
            # In memory when its turn has come, and not before.
            read, changed = await anyio.to_thread.run_sync(_reading, found, body, quirks, limiter=self._reading)
        else:
            read, changed = _reading(found, body, quirks)
        if changed is not None:
            body.seek(0)
            body.truncate()
            size_bytes = body.write(changed)
        body.seek(0)
        return read, size_bytes

    def _masked(self, read: Named, auth: Auth, found: Route, place: Place) -> Named:
        """What a body names as it may be written down: a program that has seen a key could name a model so."""
        try:
            mask = Redactor(*carried(auth, found.api, place, self._credentials).secrets).text
        except Fault:
            return read  # without the key it is refused, when brokerd has been told
        return read._replace(model=mask(read.model), hosted_tools=tuple(map(mask, read.hosted_tools)))

    async def _booked(self, call: _Ready, client: Client) -> None:
        """Relay a call that has a row, which is settled at the end, whatever ends the call."""
        rule = call.place.rule
        beginning = Beginning(
            call=call.id,
            session=call.asked.session,
            destination=call.place.name,
            api=call.route.api,
            auth=call.auth,
            model=call.named.model,
            input_bytes=call.body_bytes + call.named.unseen_tokens,
            output_tokens=call.named.most_output,
            answers=call.named.answers,
            max_output=rule.max_output,
            dearer=call.named.dearer,
        )
        observed.begun(beginning)
        reserved = await self._books.begin(beginning)
        outcome = _Outcome()
        try:
            if client.has_left:
                # It may have waited long for room, and nobody waits for its answer.
                outcome.ended = "client-left"
                raise Gone
            await self._relayed(call, client, reserved, outcome)
        except Fault as fault:
            outcome.status = status_of(fault, call.route.api)
            outcome.ended = "failed" if fault.code in _NO_ANSWER else "refused"
            raise
        finally:
            ending = _ending(call.id, outcome)
            observed.ended(ending)
            self._books.settle(ending)

    async def _relayed(self, call: _Ready, client: Client, reserved: Reserved | None, outcome: _Outcome) -> None:
        carries = carried(call.auth, call.route.api, call.place, self._credentials)
        own = own_secrets(call.asked.headers, carries)
        meter = call.route.meter
        request = _request(call, carries)
        answer = Answer(client.http, request, meter and meter(), Redactor(*carries.secrets), Redactor(*own))
        outcome.answer = answer
        ask = _ask(call, reserved)

        def allowed(decision: EgressDecision) -> None:
            hosted.check(call.named.hosted_tools, call.place.rule.hosted_tools, call.place.name)
            if reserved is not None:
                if not reserved.held:
                    raise Fault("spend")
                self._books.need_written(call.id)
                outcome.recorder = answer.kept = self._contexts.leaves(
                    _left(call, decision, Redactor(*carries.secrets, *own))
                )

        try:
            flight = await relay(
                Call(ask, call.body, call.body_bytes, call.place), client, answer, self._relaying, allowed
            )
            outcome.ended = "label-rose" if flight.label_rose else "complete"
        except Garbled:
            outcome.ended = "client-left" if answer.client_left else "upstream-cut"
        finally:
            outcome.status = answer.status or 0
            answer.stop()
            # A call that was allowed and found no connection never left: nothing of it is kept.
            if answer.begun and outcome.recorder is not None:
                outcome.recorder.end(answer.complete, answer.model)


def _routed(asked: Asked, place: Place, client: Client) -> Route:
    """What a request means at a destination; a refusal is told in the shape of its API from now on."""
    apis = likely(asked.headers, place.rule.apis)
    found = route(apis, asked.method, asked.path, place.rule.quirks)
    client.api = api_of(asked.path, place.rule.apis) if found is None else found.api
    if found is None:
        raise Fault("route-unknown")
    if found.what != "here":
        place.need_target()
    return found


def _reading(found: Route, body: IO[bytes], quirks: Sequence[str]) -> tuple[Named, bytes | None]:
    """What a body names as it leaves, and the body itself where it is changed."""
    body.seek(0)
    data = body.read()
    try:
        changed = rewritten(found.api, data, quirks)
        return named(found.api, data if changed is None else changed, found.model), changed
    except RecursionError:
        # Newer Pythons read JSON that is nested deeper than they can follow.
        raise Fault("request-invalid", "the body of the request is nested too deep") from None


def _ask(call: _Ready, reserved: Reserved | None) -> EgressAsk:
    return EgressAsk(
        session=call.asked.session,
        call=call.id,
        destination=call.place.name,
        method=call.asked.method,
        path=call.route.target or call.asked.path,
        what="call" if call.route.what == "call" else "read",
        model=call.named.model,
        # Whoever names more is refused here, whatever is decided.
        hosted_tools=list(call.named.hosted_tools[:_MOST_TOOLS_TOLD]),
        spending=None if reserved is None else reserved.spending,
    )


def _request(call: _Ready, carries: Carried) -> Request:
    target = call.place.prefix + call.target
    return for_upstream(
        call.head,
        call.route.api,
        call.place.authority,
        target,
        carries,
        call.body_bytes,
        keep=call.place.target.tls,
    )


def _left(call: _Ready, decision: EgressDecision, redactor: Redactor) -> Left:
    return Left(
        call=call.id,
        session=call.asked.session,
        destination=call.place.name,
        auth=call.auth,
        route=call.route.api,
        method=call.asked.method,
        path=call.target,
        model=call.named.model,
        decision=decision,
        headers=named_headers(call.head, call.route.api),
        body=call.body,
        redactor=redactor,
    )


def _ending(call: str, outcome: _Outcome) -> Ending:
    answer = outcome.answer
    return Ending(
        call=call,
        status=outcome.status or (answer and answer.status) or 0,
        ended=outcome.ended,
        sent=answer is not None and answer.begun,
        complete=answer is not None and answer.complete,
        usage=Usage() if answer is None else answer.usage,
        model=None if answer is None else answer.model,
    )
