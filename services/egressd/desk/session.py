"""run/sessions/<id>/egress.sock: HTTP/1.1, one request a connection; whose it is says the socket.

`/mcp` is MCP, CONNECT is a tunnel, everything else is a call of a model, with the path of its API.
"""

from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from egressd.calls import Calls
from egressd.config import Relay, Session
from egressd.doors import Door, Standing
from egressd.mcp.door import PATH, Mcp
from egressd.tunnel import Tunnels
from egressd.wire.door import Client, Gone, Held
from egressd.wire.heads import asked_on_own
from egressd.wire.http import Request
from egressd.wire.refusal import status_of
from proto.faults import Fault
from proto.role import trace
from proto.role.log import logger
from proto.role.raw import Raw
from proto.role.serve import Connection, check_peer

_ROW: Final = "run/sessions/<id>/egress.sock"
_OF_THE_CLIENT: Final = (400, 404, 413, 426)
"""What only the client can put right is not worth a line in the log."""


class SessionDesk:
    """Answers the programs of every session."""

    def __init__(
        self, *, calls: Calls, tunnels: Tunnels, mcp: Mcp, limits: Relay, session: Session, spool_folder: Path
    ) -> None:
        self._calls = calls
        self._tunnels = tunnels
        self._mcp = mcp
        self._limits = limits
        self._session = session
        self._folder = spool_folder
        self._held: WeakKeyDictionary[Standing, Held] = WeakKeyDictionary()

    async def enter(self, standing: Standing, stream: Raw) -> None:
        """Serve one connection, and close it."""
        client = Client(stream, self._limits, self._folder, self._held.setdefault(standing, Held()))
        try:
            peer_pid = check_peer(stream, _ROW)
            if standing.inside > self._session.connections:
                raise Fault("busy")
            head = await client.head()
            if standing.closed:
                raise Fault("session-closed")
            if head.method == b"CONNECT":
                door = standing.door
                await self._tunnels.run(head, client.http, stream, door.session, door.destination)
            else:
                await self._answer(standing.door, head, client, Connection(stream, _ROW, peer_pid))
        except Gone:
            return
        except Fault as fault:
            await self._refuse(standing.door, client, fault)
        except Exception:  # noqa: BLE001  (whatever a request does, the daemon answers the next one)
            logger().exception("call-failed", socket=_ROW, session=standing.door.session)
            await self._refuse(standing.door, client, Fault("internal"))
        finally:
            stream.close()

    async def _answer(self, door: Door, head: Request, client: Client, connection: Connection) -> None:
        asked = asked_on_own(head, door.session, door.destination, door.auth)
        if asked.path == PATH:
            trace.follow(asked.trace)
            await self._mcp.answer(door.session, head, client, connection)
        else:
            await self._calls.run(asked, head, client)

    async def _refuse(self, door: Door, client: Client, fault: Fault) -> None:
        if status_of(fault) not in _OF_THE_CLIENT:
            logger().info("call-refused", session=door.session, code=fault.code)
        await client.refuse(fault)
