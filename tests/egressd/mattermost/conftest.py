"""A running egressd between a fake Mattermost server and a brokerd that says yes; one for the tests of a module."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, unix_connect

from proto import sockets
from proto.labels import DataClass
from proto.messages.broker import SessionLabel
from proto.messages.wire import Ok
from tests.e2e.box import Box, running
from tests.egressd.http import Response, exchange
from tests.fakes.egress_broker import FakeBroker
from tests.fakes.mattermost import FakeMattermost, openapi

SESSION = "mm-" + "s" * 26


class World:
    """The three of them, and loopd's way to ask."""

    def __init__(self, home: Path, box: Box, broker: FakeBroker, server: FakeMattermost) -> None:
        self.home, self.box, self.broker, self.server = home, box, broker, server

    def grants(self, *, owner: bool = True, ceiling: str = "secret", more: str = "") -> None:
        """Write the rules anew: what egressd has kept of the server is forgotten."""
        owner_line = f'owner = "{self.server.owner["id"]}"\n' if owner else ""
        self.box.write(
            "grants.toml",
            f'[destinations.chat]\nbase_url = "{self.server.url}"\napi = "mattermost"\n'
            f'credential = "MATTERMOST_TOKEN"\nceiling = "{ceiling}"\n'
            f'[destinations.model]\nbase_url = "{self.server.url}"\n'
            f"[mattermost]\n{owner_line}{more}",
        )

    def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        session: str | None = SESSION,
        channel: str | None = None,
        headers: str = "",
        destination: str = "chat",
    ) -> Response:
        """Ask as loopd does."""
        named = f"X-Boxmaker-Session: {session}\r\n" if session else ""
        named += f"X-Boxmaker-Channel: {channel}\r\n" if channel else ""
        named += f"Content-Length: {len(body)}\r\n" if body else ""
        head = f"{method} /{destination}/api/v4/{path} HTTP/1.1\r\nHost: egress\r\n{named}{headers}\r\n"
        return exchange(self.home, head.encode() + body)

    def read(self, path: str, method: str = "GET", value: Any = None, **parts: Any) -> Response:
        """Ask as the channel's own housekeeping does."""
        body = b"" if value is None else json.dumps(value).encode()
        return self.send(method, path, body, session=None, channel="mattermost", **parts)

    def post(self, path: str, value: Any, method: str = "POST", **parts: Any) -> Response:
        """Ask with a JSON body as a session does."""
        return self.send(method, path, json.dumps(value).encode(), **parts)

    def listen(self, query: str = "", **headers: str) -> ClientConnection:
        """Open the WebSocket."""
        path = str(sockets.socket("loop-egress").at(self.home))
        named = {"X-Boxmaker-Channel": "mattermost", "Authorization": "Bearer client-own", **headers}
        url = f"ws://egress/chat/api/v4/websocket{query}"
        return unix_connect(path, url, additional_headers=named, max_size=None)

    def label_rises(self, class_: DataClass = DataClass.SECRET) -> None:
        """Say that the session's label has risen."""
        self.box.ask("broker-egress", SessionLabel(session=SESSION, class_=class_, untrusted=False), Ok)

    def seen(self) -> list[tuple[str, str]]:
        """What the server was asked."""
        return [(request.method, request.path.removeprefix("/api/v4/")) for request in self.server.requests]


@pytest.fixture(scope="module")
def running_world() -> Iterator[World]:
    home = Path(tempfile.mkdtemp(prefix="bx"))
    broker = FakeBroker(home)
    try:
        with FakeMattermost(authenticate_within_s=0.2) as server:
            (home / "config").mkdir()
            (home / "config" / "egressd.toml").write_text("[mattermost]\nsockets = 2\nfile_bytes = 1000\n")
            with running(home, "egressd", environ={"MATTERMOST_TOKEN": server.bot_token}) as box:
                yield World(home, box, broker, server)
    finally:
        broker.stop()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def world(running_world: World) -> Iterator[World]:
    server, broker = running_world.server, running_world.broker
    running_world.grants()
    broker.asked.clear()
    broker.allow, broker.reasons, broker.before_answer = True, ["granted"], None
    server.requests.clear()
    server.answered.clear()
    yield running_world
    assert openapi.problems(server.answered) == []
    server.faults.__init__()  # type: ignore[misc]
    server.reset_connections()
    server.wait(lambda: not server.connected)
