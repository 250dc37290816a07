"""One model call of a client, from its head to its row: find, spool, relay, book."""

import os
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import IO, Final

import h11
import msgspec

from egressd.credentials import Credentials
from egressd.destinations import Place
from egressd.meter.usage import Usage
from egressd.relay import Call, Garbled, Relaying, relay
from egressd.routes import Route, route
from egressd.store import Begun, Ended, Settled, UsageStore
from egressd.wire.answer import Answer
from egressd.wire.door import Client
from egressd.wire.heads import Asked
from egressd.wire.redact import Redactor
from egressd.wire.refusal import status_of
from proto.faults import Fault
from proto.role.clock import Clock, stamp

_LONGEST_READ_BYTES: Final = 1 << 20
_NO_ANSWER: Final = frozenset({"upstream-unreachable", "internal"})


class _Body(msgspec.Struct):
    """What is read of a request's body."""

    model: str = ""


_body: Final = msgspec.json.Decoder(_Body)


class _Outcome:
    """What becomes of a call."""

    status: int = 0
    ended: Ended = "stopped"
    answer: Answer | None = None


class Calls:
    """Runs calls."""

    def __init__(
        self,
        credentials: Credentials,
        store: UsageStore,
        relaying: Relaying,
        clock: Clock,
    ) -> None:
        self._credentials = credentials
        self._store = store
        self._relaying = relaying
        self._clock = clock

    async def run(self, asked: Asked, head: h11.Request, client: Client) -> None:
        """Relay one call and book it.

        Raises:
            Fault: a refusal; the client has been told nothing yet.
            Gone: the client left before its request was whole.

        """
        self._found(asked)
        with closing(await client.body()) as body:
            # Looked up again: the owner may have changed the file while the body came.
            place, found = self._found(asked)
            size_bytes = body.seek(0, os.SEEK_END)
            body.seek(0)
            call_id = f"model-{secrets.token_hex(8)}"
            with self._booked(call_id, asked, body, size_bytes, found) as outcome:
                key = self._key(place)
                answer = Answer(client.http, found.meter and found.meter(), Redactor(key))
                outcome.answer = answer
                call = Call(call_id, asked, head, body, size_bytes, place, key)
                outcome.ended = await self._relayed(call, client, answer)
                outcome.status = answer.status or 0

    def _found(self, asked: Asked) -> tuple[Place, Route]:
        place = self._relaying.destinations.find(asked.destination)
        found = route(place.rule.apis, asked.method, asked.path)
        if found is None:
            raise Fault("route-unknown")
        return place, found

    async def _relayed(self, call: Call, client: Client, answer: Answer) -> Ended:
        try:
            flight = await relay(call, client, answer, self._relaying)
        except Garbled:
            return "client-left" if answer.client_left else "upstream-cut"
        return "label-rose" if flight.label_rose else "complete"

    def _key(self, place: Place) -> str | None:
        name = place.rule.credential
        return None if name is None else self._credentials.find(name)

    @contextmanager
    def _booked(self, call: str, asked: Asked, body: IO[bytes], size_bytes: int, found: Route) -> Iterator[_Outcome]:
        """The call's row, written now and settled at the end, whatever ends the call."""
        outcome = _Outcome()
        if found.meter is None:
            yield outcome
            return
        model = _model(body) if size_bytes <= _LONGEST_READ_BYTES else ""
        began = stamp(self._clock())
        self._store.begin(
            Begun(call=call, session=asked.session, destination=asked.destination, model=model, began=began)
        )
        try:
            yield outcome
        except Fault as fault:
            outcome.status = status_of(fault)
            outcome.ended = "failed" if fault.code in _NO_ANSWER else "refused"
            raise
        finally:
            self._settle(call, outcome)

    def _settle(self, call: str, outcome: _Outcome) -> None:
        answer = outcome.answer
        if answer is not None:
            answer.stop_metering()
        self._store.settle(
            Settled(
                call=call,
                status=outcome.status or (answer and answer.status) or 0,
                ended=outcome.ended,
                partial=answer is not None and answer.begun and not answer.complete,
                finished=stamp(self._clock()),
                usage=Usage() if answer is None else answer.usage,
                model=None if answer is None else answer.model,
            )
        )


def _model(body: IO[bytes]) -> str:
    """The model that a request names, or nothing."""
    try:
        return _body.decode(body.read()).model
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    finally:
        body.seek(0)
