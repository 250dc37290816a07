"""A plain REST client of a Mattermost server, for tests."""

import http.client
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Reply(NamedTuple):
    """An answer; names of headers in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body's value."""
        return json.loads(self.body)

    @property
    def map(self) -> dict[str, Any]:
        """The body's object."""
        found: dict[str, Any] = self.json
        return found


class Rest:
    """Speaks for one token."""

    def __init__(self, url: str, token: str) -> None:
        self._address = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {token}"}

    def send(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Reply:
        """Send a request for a path under /api/v4/."""
        connection = http.client.HTTPConnection(self._address.hostname or "", self._address.port, timeout=20)
        try:
            connection.request(method, f"/api/v4/{path}", body or None, {**self._headers, **(headers or {})})
            answer = connection.getresponse()
            return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Reply:
        """GET."""
        return self.send("GET", path)

    def post(self, path: str, value: Any) -> Reply:
        """POST a value."""
        return self.send("POST", path, json.dumps(value).encode())

    def put(self, path: str, value: Any) -> Reply:
        """PUT a value."""
        return self.send("PUT", path, json.dumps(value).encode())

    def delete(self, path: str) -> Reply:
        """DELETE."""
        return self.send("DELETE", path)
