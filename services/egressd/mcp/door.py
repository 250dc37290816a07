"""From a session's socket to the SDK and back: one HTTP request, read whole, answered whole.

The SDK is imported beside the event loop when the first request comes; who asks meanwhile waits for it.
"""

import importlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.abc

from egressd.config import Session
from egressd.mcp.tools import SESSION, Tools
from egressd.wire.door import Client
from egressd.wire.http import Headers, Request, Response
from proto.faults import Fault
from proto.role.log import logger
from proto.role.serve import Connection

if TYPE_CHECKING:
    from egressd.mcp.sdk import Asgi, Message

PATH: Final = "/mcp"
_OF_THE_CONNECTION: Final = (b"content-length", b"connection")
_LOOK_S: Final = 0.5
"""How often a call that waits looks whether its client is still there."""
_AGAIN_S: Final = 5.0
"""How long a server that failed is away."""


class Mcp:
    """Serves `/mcp` to every session."""

    def __init__(self, tools: Tools, limits: Session) -> None:
        self._tools = tools
        self._limits = limits
        self._wanted = anyio.Event()
        self._ready = anyio.Event()
        self._asgi: Asgi | None = None
        self._under_way: Counter[str] = Counter()

    async def run(self) -> None:
        """Hold the SDK's server from the first request on, until cancelled."""
        await self._wanted.wait()
        while True:
            try:
                sdk: Any = await anyio.to_thread.run_sync(importlib.import_module, "egressd.mcp.sdk")
                async with sdk.serving(self._tools) as self._asgi:
                    self._ready.set()
                    await anyio.sleep_forever()
            except Exception:  # noqa: BLE001  (models are reached without it, and whoever asks for it is told)
                logger().exception("mcp-failed")
                self._asgi = None
                self._ready.set()
                await anyio.sleep(_AGAIN_S)

    async def answer(self, session: str, head: Request, client: Client, connection: Connection) -> None:
        """Answer one request of a session.

        Raises:
            Fault: a refusal; the client has been told nothing yet.
            Gone: the client left.

        """
        if head.method != b"POST":
            # No stream is held open for a client, and there is no session of MCP's own to end.
            await client.send(client.http.answer_whole(Response(405, [(b"Allow", b"POST")]), b""))
            return
        with self._counted(session):
            with await client.body(self._limits.mcp_body_bytes) as held:
                body = held.read()
            exchange = _Exchange(body, connection)
            await self._exchanged(_scope(session, head), exchange)
        if exchange.status:
            await client.send(client.http.answer_whole(exchange.head, bytes(exchange.body)))

    async def _exchanged(self, scope: "Message", exchange: "_Exchange") -> None:
        self._wanted.set()
        await self._ready.wait()
        if self._asgi is None:
            raise Fault("internal")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(exchange.watch, tasks.cancel_scope)
            await self._asgi(scope, exchange.receive, exchange.send)
            tasks.cancel_scope.cancel()

    @contextmanager
    def _counted(self, session: str) -> Iterator[None]:
        if self._under_way[session] >= self._limits.mcp_calls:
            raise Fault("busy")
        self._under_way[session] += 1
        try:
            yield
        finally:
            self._under_way[session] -= 1
            if not self._under_way[session]:
                del self._under_way[session]


class _Exchange:
    """One request as ASGI has it: the body as one message, the answer as one or more."""

    def __init__(self, body: bytes, connection: Connection) -> None:
        self._request: bytes | None = body
        self._connection = connection
        self._gone = anyio.Event()
        self.status = 0
        self._headers: Headers = []
        self.body = bytearray()

    @property
    def head(self) -> Response:
        """The head of the answer, without what says how its body ends."""
        return Response(self.status, [pair for pair in self._headers if pair[0].lower() not in _OF_THE_CONNECTION])

    async def receive(self) -> "Message":
        if self._request is not None:
            body, self._request = self._request, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: "Message") -> None:
        if message["type"] == "http.response.start":
            self.status, self._headers = message["status"], list(message.get("headers", ()))
        else:
            self.body += message.get("body", b"")

    async def watch(self, scope: anyio.CancelScope) -> None:
        """End a call whose client has gone: brokerd hears of it, and what waits for the owner is void."""
        while not self._connection.peer_gone():  # noqa: ASYNC110  (the kernel's word; no event is set for it)
            await anyio.sleep(_LOOK_S)
        self._gone.set()
        scope.cancel()


def _scope(session: str, head: Request) -> dict[str, Any]:
    target, _, query = head.target.partition(b"?")
    lower = [(name.lower(), value) for name, value in head.headers]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": head.method.decode("ascii"),
        "scheme": "http",
        "path": target.decode("ascii"),
        "raw_path": target,
        "query_string": query,
        "root_path": "",
        "headers": [(name, value) for name, value in lower if name != b"mcp-session-id"],
        "server": None,
        "client": None,
        SESSION: session,
    }
