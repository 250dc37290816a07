"""run/launcher-egress/egress.sock: a session's own socket is opened and closed; what a harness says that it used."""

from collections.abc import Callable
from typing import assert_never

from egressd import observed
from egressd.auth import STAND_IN, check
from egressd.destinations import Destinations
from egressd.doors import Door, Doors
from proto.messages.egress import EgressClose, EgressOpen, EgressOpened, HarnessUsage
from proto.messages.wire import Ok
from proto.role.log import logger
from proto.role.serve import Connection

Request = EgressOpen | EgressClose | HarnessUsage


class LauncherDesk:
    """Answers launcherd."""

    def __init__(
        self,
        doors: Doors,
        destinations: Destinations,
        closed: Callable[[str], None],
        report: Callable[[HarnessUsage], None],
    ) -> None:
        """`closed` ends what has no end of its own, such as tunnels; `report` keeps a harness's own count."""
        self._doors = doors
        self._destinations = destinations
        self._closed = closed
        self._report = report

    async def __call__(self, request: Request, connection: Connection) -> EgressOpened | Ok:
        """Answer one request."""
        match request:
            case EgressOpen():
                return self._open(request)
            case EgressClose():
                return self._close(request.session)
            case HarnessUsage():
                self._report(request)
                observed.reported(request)
                return Ok()
            case _:
                assert_never(request)

    def _open(self, request: EgressOpen) -> EgressOpened:
        door = Door(
            session=request.session,
            destination=request.destination,
            auth=request.auth,
            harness=request.harness,
        )
        if self._doors.find(door.session) is None:
            check(self._destinations.find(door.destination), door.auth, door.harness)
        path = self._doors.open(door)
        logger().info("session-opened", session=door.session, destination=door.destination, auth=door.auth)
        return EgressOpened(path=str(path), stand_in=STAND_IN)

    def _close(self, session: str) -> Ok:
        is_open = self._doors.find(session) is not None
        try:
            self._doors.close(session)
        finally:
            # Nobody comes in any more, also where the disk refused; what has no end of its own ends in any case.
            self._closed(session)
        if is_open:
            logger().info("session-closed", session=session)
        return Ok()
