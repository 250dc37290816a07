"""run/broker-egress/egress.sock: one hop of a fetch that brokerd decided, and a session's label that has risen."""

from typing import assert_never

import msgspec

from egressd.fetch import Fetcher
from egressd.flights import Flights
from proto.messages.broker import SessionLabel
from proto.messages.egress import Fetch, FetchFailed
from proto.messages.wire import Ok
from proto.role.log import logger
from proto.role.serve import Connection


class BrokerDesk:
    """Answers brokerd."""

    def __init__(self, fetcher: Fetcher, flights: Flights) -> None:
        self._fetcher = fetcher
        self._flights = flights

    async def __call__(self, request: Fetch | SessionLabel, connection: Connection) -> msgspec.Struct:
        """Answer one request."""
        match request:
            case Fetch():
                fetched = await self._fetcher.hop(request.url, loopback=request.loopback)
                outcome = fetched.reason if isinstance(fetched, FetchFailed) else fetched.status
                logger().info("fetch", session=request.session, call=request.call, outcome=outcome)
                return fetched
            case SessionLabel():
                closed = await self._flights.label_rises(request.session, request.class_)
                if closed:
                    logger().info("calls-closed", session=request.session, calls=closed)
                return Ok()
            case _:
                assert_never(request)
