"""An egressd for tests of brokerd, over the real socket.

Features: `pages` maps a URL to what fetching it gives (`fetched`, `fetch_redirected`, `fetch_failed`); records every fetch
and every label it was told of, in the order in which they came; `began` is set by the first fetch; with `gate` set, a fetch waits for that event; with `deaf`,
a label that rose is taken and never answered; `busy` is how many labels that rose are refused as `busy` first.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec

from proto.faults import Fault
from proto.messages.broker import SessionLabel
from proto.messages.egress import Fetch, Fetched, FetchFailed, FetchRedirected
from proto.messages.wire import Ok, Ping
from proto.role.listen import listen
from proto.role.serve import Connection, Server
from proto.sockets import socket


class FakeEgressd:
    """One listener, in the event loop of the test."""

    def __init__(self, home: Path) -> None:
        self.path = socket("broker-egress").at(home)
        self.pages: dict[str, msgspec.Struct] = {}
        self.fetches: list[Fetch] = []
        self.notices: list[SessionLabel] = []
        self.began = anyio.Event()
        self.gate: anyio.Event | None = None
        self.deaf = False
        self.busy = 0

    def page(self, url: str, text: str = "a page", *, status: int = 200) -> None:
        """Let a URL be a page."""
        self.pages[url] = Fetched(url=url, status=status, content_type="text/html", text=text, truncated=False)

    def redirect(self, url: str, location: str) -> None:
        """Let a URL send elsewhere."""
        self.pages[url] = FetchRedirected(status=302, location=location)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["FakeEgressd"]:
        """Serve inside the block."""
        async with anyio.create_task_group() as tasks:
            kinds = (Ping, Fetch, SessionLabel)
            tasks.start_soon(Server("fake-egressd", kinds, self._desk).serve, listen(self.path))
            yield self
            tasks.cancel_scope.cancel()

    async def _desk(self, request: Fetch | SessionLabel, connection: Connection) -> msgspec.Struct:
        if isinstance(request, SessionLabel):
            if self.busy:
                self.busy -= 1
                raise Fault("busy")
            self.notices.append(request)
            if self.deaf:
                await anyio.sleep_forever()
            return Ok()
        self.fetches.append(request)
        self.began.set()
        if self.gate is not None:
            await self.gate.wait()
        return self.pages.get(request.url, FetchFailed(reason="name", message="the name does not resolve"))
