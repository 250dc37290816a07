"""run/broker-egress/egress.sock: one hop of a fetch that brokerd decided, and a session's label that has risen."""

from typing import Final, assert_never

import msgspec

from egressd.fetch import Fetcher
from egressd.flights import Flights
from proto.faults import Fault
from proto.messages.broker import SessionLabel
from proto.messages.egress import Fetch, Fetched, FetchFailed, FetchRedirected
from proto.messages.wire import Ok
from proto.role.log import logger
from proto.role.serve import MOST_CONNECTIONS, Connection

_MOST_FETCHES: Final = MOST_CONNECTIONS // 2
"""A fetch may take long, and a label that rises must find a connection free: half of them are for labels alone."""


class BrokerDesk:
    """Answers brokerd."""

    def __init__(self, fetcher: Fetcher, flights: Flights) -> None:
        self._fetcher = fetcher
        self._flights = flights
        self._fetching = 0

    async def __call__(self, request: Fetch | SessionLabel, connection: Connection) -> msgspec.Struct:
        """Answer one request."""
        match request:
            case Fetch():
                return await self._fetch(request)
            case SessionLabel():
                closed = await self._flights.label_rises(request.session, request.class_)
                if closed:
                    logger().info("calls-closed", session=request.session, calls=closed)
                return Ok()
            case _:
                assert_never(request)

    async def _fetch(self, request: Fetch) -> Fetched | FetchRedirected | FetchFailed:
        if self._fetching >= _MOST_FETCHES:
            raise Fault("busy", "too many pages are being fetched; try again")
        self._fetching += 1
        try:
            fetched = await self._fetcher.hop(request.url, loopback=request.loopback)
        finally:
            self._fetching -= 1
        outcome = fetched.reason if isinstance(fetched, FetchFailed) else fetched.status
        logger().info("fetch", session=request.session, call=request.call, outcome=outcome)
        return fetched
