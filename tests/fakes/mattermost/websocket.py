"""One WebSocket: what the client sends is answered here, what it is sent comes through its link."""

import contextlib
import json
import socket
import struct
import time
from typing import Final

import anyio
import anyio.abc
import anyio.lowlevel
import h11
import wsproto
from anyio.abc import SocketAttribute
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    TextMessage,
)

from tests.fakes.mattermost.faults import Faults
from tests.fakes.mattermost.links import Link, Links
from tests.fakes.mattermost.rest import Request, error_of
from tests.fakes.mattermost.state import Map, Refused, State

_AT_ONCE: Final = struct.pack("ii", 1, 0)


class Socket:
    """A connection that was asked to be a WebSocket."""

    def __init__(
        self, state: State, links: Links, faults: Faults, stream: anyio.abc.ByteStream, request: Request
    ) -> None:
        self.link: Link | None = None
        self.pongs = 0
        self._state = state
        self._links = links
        self._faults = faults
        self._stream = stream
        self._request = request
        self._ws = wsproto.WSConnection(wsproto.ConnectionType.SERVER)
        self._out, self._queue = anyio.create_memory_object_stream[bytes](1_000_000)

    async def run(self, head: h11.Request, rest: bytes, user_id: str | None, within_s: float) -> None:
        """Speak until either side ends."""
        with self._out, self._queue:
            await self._speak(head, rest, user_id, within_s)

    async def _speak(self, head: h11.Request, rest: bytes, user_id: str | None, within_s: float) -> None:
        self._ws.initiate_upgrade_connection(list(head.headers), head.target.decode())
        if refused := self._faults.refuse_upgrade:
            self.write(RejectConnection(status_code=refused, headers=[], has_body=True))
            await self._stream.send(self._queue.receive_nowait() + self._ws.send(RejectData(data=b"{}")))
            return
        self.write(AcceptConnection())
        if rest:
            self._ws.receive_data(rest)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._pump, tasks.cancel_scope)
            tasks.start_soon(self._reject_late, within_s)
            if user_id is not None:
                self._open(user_id)
            await self._listen()
            tasks.cancel_scope.cancel()

    def write(self, event: wsproto.events.Event) -> None:
        """Send, after what is to be sent already."""
        with contextlib.suppress(
            wsproto.utilities.LocalProtocolError, anyio.BrokenResourceError, anyio.ClosedResourceError
        ):
            self._out.send_nowait(self._ws.send(event))

    def reset(self) -> None:
        """Break off."""
        cut(self._stream)

    def close(self, code: int) -> None:
        """Close as the protocol says."""
        self.write(CloseConnection(code=code))

    def _open(self, user_id: str) -> None:
        query = self._request.query
        self.link = self._links.open(
            user_id,
            lambda text: self.write(TextMessage(data=text)),
            query.get("connection_id", ""),
            int(query.get("sequence_number") or 0),
        )

    async def _reject_late(self, within_s: float) -> None:
        """Who has not said by then who it is, is sent away."""
        await anyio.sleep(within_s)
        if self.link is None:
            self.reset()

    async def _pump(self, scope: anyio.CancelScope) -> None:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for data in self._queue:
                await self._stream.send(data)
            return
        scope.cancel()

    async def _listen(self) -> None:
        while True:
            for event in self._ws.events():
                if not self._take(event):
                    await anyio.lowlevel.checkpoint()
                    return
            try:
                self._ws.receive_data(await self._stream.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    def _take(self, event: wsproto.events.Event) -> bool:
        match event:
            case Ping() if self._faults.answer_pings and not self._faults.silent:
                self.write(event.response())
            case Pong():
                self.pongs += 1
            case CloseConnection():
                self.write(event.response())
                return False
            case TextMessage(data=text) | BytesMessage(data=text):
                self._asked(json.loads(text))
            case _:
                pass
        return True

    def _asked(self, asked: Map) -> None:
        action, data = asked.get("action"), asked.get("data") or {}
        if action == "authentication_challenge" and self.link is None:
            user_id = None if self._faults.refuse_token else self._state.tokens.get(data.get("token", ""))
            if user_id is None:
                self.reset()
                return
            self._reply(asked)
            self._open(user_id)
        elif self.link is None:
            self._reply(
                asked, error=Refused(401, "api.web_socket_router.not_authenticated.app_error", "Not authenticated.")
            )
        elif action == "ping":
            if self._faults.answer_pings:
                self._reply(
                    asked, {"text": "pong", "version": "11.9.0", "server_time": time.time_ns() // 10**6, "node_id": ""}
                )
        elif action == "user_typing":
            self._state.type_(self.link.user_id, data.get("channel_id", ""), data.get("parent_id", ""))
            self._reply(asked)
        else:
            self._reply(
                asked, error=Refused(404, "api.web_socket_router.bad_action.app_error", "Unknown WebSocket action.")
            )

    def _reply(self, asked: Map, data: Map | None = None, error: Refused | None = None) -> None:
        if self._faults.silent:
            return
        reply: Map = {"status": "FAIL" if error else "OK", "seq_reply": asked.get("seq")}
        if data is not None:
            reply["data"] = data
        if error is not None:
            reply["error"] = error_of(error)
        self.write(TextMessage(data=json.dumps(reply)))


def cut(stream: anyio.abc.ByteStream) -> None:
    """Reset a connection."""
    raw: socket.socket = stream.extra(SocketAttribute.raw_socket)
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        raw.shutdown(socket.SHUT_RDWR)
