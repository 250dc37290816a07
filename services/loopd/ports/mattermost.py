"""Mattermost, reached through egressd's socket for loopd: one HTTP/1.1 request a connection, and the WebSocket.

What carries a session's words bears `X-Boxmaker-Session`, and is decided under that session's label. The channel's own
reading and its WebSocket bear `X-Boxmaker-Channel` in its place: nothing of a session leaves with them.
"""

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import anyio.abc
import h11
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.utilities import ProtocolError

from loopd.ports.model import SESSION_HEADER
from proto.role import trace

CHANNEL_HEADER: Final = "X-Boxmaker-Channel"
API: Final = "api/v4"
_ANSWER_SECONDS: Final = 60.0
_MOST_BYTES: Final = 32 << 20
_MOST_FRAME_BYTES: Final = 8 << 20


class Reply(NamedTuple):
    """What came back: the status, the headers by their lower-case names, and the body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        """The body as JSON; None when it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


class Message(NamedTuple):
    """A text that came over the WebSocket."""

    text: str


class Sign(NamedTuple):
    """A ping or a pong came: the other side lives."""


class Refused(Exception):
    """The server, or egressd, did not take the upgrade."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"HTTP {reply.status}")
        self.reply = reply


class Gone(Exception):
    """The connection could not be made, or broke; the message says how."""


class TooLong(Gone):
    """There is an answer, and it is longer than is read."""


class MattermostPort:
    """The way to the server: `destination` is its name in grants.toml."""

    def __init__(self, path: Path, destination: str, timeout_s: float = _ANSWER_SECONDS) -> None:
        self._path = path
        self._base = f"/{destination}/{API}/"
        self._timeout_s = timeout_s

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        session: str | None = None,
        content_type: str = "application/json",
    ) -> Reply:
        """Ask once; `session` is whose words the request carries, None for the channel's own reading.

        Raises:
            Gone: there was no whole answer; whether it was done is not known. `TooLong` is one.

        """
        head = h11.Request(
            method=method,
            target=self._base + path,
            headers=[
                ("Host", "egressd"),
                (CHANNEL_HEADER, "mattermost") if session is None else (SESSION_HEADER, session),
                ("Accept", "application/json"),
                ("Connection", "close"),
                *([("Content-Type", content_type), ("Content-Length", str(len(body)))] if body is not None else []),
                *([("traceparent", under_way)] if (under_way := trace.current()) else []),
            ],
        )
        http = h11.Connection(h11.CLIENT)
        data = (http.send(head) or b"") + (http.send(h11.Data(data=body)) if body else b"")
        http.send(h11.EndOfMessage())
        try:
            with anyio.fail_after(self._timeout_s):
                async with await anyio.connect_unix(self._path) as connection:
                    await _send(connection, data)
                    return await _reply(connection, http)
        except (h11.ProtocolError, anyio.BrokenResourceError, anyio.EndOfStream, OSError) as error:
            raise Gone(str(error) or type(error).__name__) from None

    async def socket(self) -> "Socket":
        """The WebSocket, open.

        Raises:
            Gone: egressd or the server does not answer.
            Refused: the upgrade was refused.

        """
        try:
            connection = await anyio.connect_unix(self._path)
        except OSError as error:
            raise Gone(str(error)) from None
        opened = Socket(connection)
        try:
            await opened.open(self._base + "websocket")
        except BaseException:
            await opened.close()
            raise
        return opened


class Socket:
    """An open WebSocket."""

    def __init__(self, connection: anyio.abc.SocketStream) -> None:
        self._connection = connection
        self._ws = WSConnection(ConnectionType.CLIENT)
        self._pending: list[Any] = []
        """What came with the answer to the upgrade, and with the last read."""
        self._text: list[str] = []
        self._size = 0

    async def open(self, target: str) -> None:
        """Ask for the upgrade, and wait for the answer."""
        headers = [(CHANNEL_HEADER.encode(), b"mattermost")]
        await self._send(Request(host="egressd", target=target, extra_headers=headers))
        refused: Reply | None = None
        body = b""
        while True:
            events = await self._read()
            for number, event in enumerate(events):
                match event:
                    case AcceptConnection():
                        self._pending = events[number + 1 :]
                        return
                    case RejectConnection():
                        pairs = ((name.decode().lower(), value.decode("latin-1")) for name, value in event.headers)
                        refused = Reply(event.status_code, dict(pairs), b"")
                        if not event.has_body:
                            raise Refused(refused)
                    case RejectData() if refused is not None:
                        body = (body + bytes(event.data))[:_MOST_FRAME_BYTES]
                        if event.body_finished:
                            raise Refused(refused._replace(body=body))
                    case _:
                        continue

    async def events(self) -> AsyncIterator[Message | Sign]:
        """What comes, until the connection breaks.

        Raises:
            Gone: it broke, or the other side closed it; the message names the close code.

        """
        while True:
            for event in self._pending:
                match event:
                    case TextMessage():
                        if (text := self._whole(event)) is not None:
                            yield Message(text)
                    case Ping():
                        await self._send(event.response())
                        yield Sign()
                    case Pong():
                        yield Sign()
                    case BytesMessage():
                        continue
                    case CloseConnection():
                        raise Gone(f"closed with {event.code}")
                    case _:
                        continue
            self._pending = await self._read()

    async def ping(self) -> None:
        """Send a ping.

        Raises:
            Gone: the connection broke.

        """
        await self._send(Ping())

    async def close(self) -> None:
        """Let go of the connection."""
        with anyio.CancelScope(shield=True):
            await self._connection.aclose()

    def _whole(self, event: TextMessage) -> str | None:
        self._size += len(event.data)
        if self._size > _MOST_FRAME_BYTES:
            raise Gone("a message is too long")
        self._text.append(event.data)
        if not event.message_finished:
            return None
        whole = "".join(self._text)
        self._text.clear()
        self._size = 0
        return whole

    async def _read(self) -> list[Any]:
        try:
            data: bytes | None = await self._connection.receive()
        except anyio.EndOfStream:
            data = None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise Gone(str(error) or "reset") from None
        try:
            self._ws.receive_data(data)
        except ProtocolError as error:
            raise Gone(f"closed with 1006: {error}") from None
        return self._take()

    def _take(self) -> list[Any]:
        try:
            return list(self._ws.events())
        except ProtocolError as error:
            raise Gone(f"closed with 1006: {error}") from None

    async def _send(self, event: Any) -> None:
        try:
            await self._connection.send(self._ws.send(event))
        except ProtocolError as error:
            # The other side has closed it in the same breath.
            raise Gone(f"closed: {error}") from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise Gone(str(error) or "reset") from None


async def _send(connection: anyio.abc.SocketStream, data: bytes) -> None:
    with suppress(anyio.BrokenResourceError):
        # It may have been refused before it was read whole: the answer says so.
        await connection.send(data)


async def _reply(connection: anyio.abc.SocketStream, http: h11.Connection) -> Reply:
    head: h11.Response | None = None
    body = bytearray()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            try:
                http.receive_data(await connection.receive())
            except anyio.EndOfStream:
                http.receive_data(b"")
        elif isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > _MOST_BYTES:
                raise TooLong("the answer is too long")
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = {name.decode().lower(): value.decode("latin-1") for name, value in head.headers}
            return Reply(head.status_code, headers, bytes(body))
        elif isinstance(event, h11.ConnectionClosed):
            raise anyio.EndOfStream
