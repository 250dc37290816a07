"""run/owner-egress/admin.sock: what was used, and where bytes may go."""

from typing import Final, assert_never

from egressd.auth import is_ready
from egressd.credentials import Credentials
from egressd.destinations import Destinations
from egressd.store import UsageStore
from proto.faults import Fault
from proto.messages import egress
from proto.role.clock import parse, stamp
from proto.role.serve import Connection

_EVER: Final = "0001-01-01T00:00:00Z"


class OwnerDesk:
    """Answers the owner."""

    def __init__(self, destinations: Destinations, credentials: Credentials, store: UsageStore) -> None:
        self._destinations = destinations
        self._credentials = credentials
        self._store = store

    async def __call__(
        self, request: egress.Usage | egress.Destinations, connection: Connection
    ) -> egress.UsageReply | egress.DestinationsReply:
        """Answer one request."""
        match request:
            case egress.Usage():
                return egress.UsageReply(rows=self._store.used(_since(request.since), request.session))
            case egress.Destinations():
                return self._all()
            case _:
                assert_never(request)

    def _all(self) -> egress.DestinationsReply:
        try:
            places = self._destinations.all()
        except Fault as fault:
            return egress.DestinationsReply(destinations=[], problem=str(fault))
        rows = [
            egress.DestinationRow(
                destination=name,
                base_url=place.rule.base_url,
                apis=list(place.rule.apis),
                auths=list(place.rule.auths),
                ceiling=place.ceiling.value,
                credential=place.rule.credential,
                ready=is_ready(place, self._credentials),
                tunnels=list(place.rule.tunnels),
                hosted_tools=list(place.rule.hosted_tools),
            )
            for name, place in sorted(places.items())
        ]
        return egress.DestinationsReply(destinations=rows, problem=None)


def _since(time: str | None) -> str:
    if time is None:
        return _EVER
    try:
        return stamp(parse(time))
    except (ValueError, OverflowError):
        raise Fault("frame-undecodable", "usage: since is not a time such as 2026-09-24T00:00:00Z") from None
