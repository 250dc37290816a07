"""run/loop-egress/egress.sock: HTTP/1.1, one request a connection, `/<destination>/…` with `X-Boxmaker-Session`."""

import socket
from pathlib import Path

from egressd.calls import Calls
from egressd.config import Relay
from egressd.mattermost.door import Mattermost
from egressd.wire.door import Client, Gone, Held
from egressd.wire.heads import asked
from egressd.wire.refusal import OF_THE_CLIENT, status_of
from proto.faults import Fault
from proto.role.log import logger
from proto.role.raw import Raw
from proto.role.serve import check_peer, serve_clients


class LoopDesk:
    """Answers loopd."""

    def __init__(self, row: str, calls: Calls, mattermost: Mattermost, limits: Relay, spool_folder: Path) -> None:
        self._row = row
        self._calls = calls
        self._mattermost = mattermost
        self._limits = limits
        self._folder = spool_folder
        self._held = Held()
        self._open = 0

    async def serve(self, listening: socket.socket) -> None:
        """Accept until cancelled."""
        await serve_clients(listening, self._row, self._connection)

    async def _connection(self, stream: Raw) -> None:
        self._open += 1
        try:
            async with stream:
                await self._answer(stream)
        finally:
            self._open -= 1

    async def _answer(self, stream: Raw) -> None:
        client = Client(stream, self._limits, self._folder, self._held)
        try:
            check_peer(stream, self._row)
            if self._open > self._limits.connections:
                raise Fault("busy")
            head = await client.head()
            found = asked(head)
            if self._mattermost.serves(found.destination):
                await self._mattermost.run(found, head, client, stream)
            elif found.session:
                await self._calls.run(found, head, client)
            else:
                raise Fault("request-invalid", "what is asked of a model is a session's")
        except Gone:
            return
        except Fault as fault:
            if status_of(fault) not in OF_THE_CLIENT:
                logger().info("call-refused", code=fault.code)
            await client.refuse(fault)
        except Exception:  # noqa: BLE001  (whatever a request does, the daemon answers the next one)
            logger().exception("call-failed", socket=self._row)
            await client.refuse(Fault("internal"))
