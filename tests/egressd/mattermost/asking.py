"""What loopd does at egressd's door, for the tests: requests of a session and of the channel, and the WebSocket."""

import json
from typing import Any

from websockets.sync.client import ClientConnection, unix_connect

from proto import sockets
from tests.e2e.box import Box
from tests.egressd.http import Response, exchange
from tests.fakes.mattermost import FakeMattermost

SESSION = "mm-" + "s" * 26


class Asking:
    """loopd's way to ask the server through a running egressd."""

    def __init__(self, box: Box, server: FakeMattermost) -> None:
        self.home, self.box, self.server = box.home, box, server

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

    def seen(self) -> list[tuple[str, str]]:
        """What the server was asked."""
        return [(request.method, request.path.removeprefix("/api/v4/")) for request in self.server.requests]
