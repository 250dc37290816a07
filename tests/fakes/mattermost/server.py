"""The server's sockets: HTTP/1.1 and WebSocket over loopback TCP, in a thread of its own."""

import contextlib
import json
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Self, TypeVar

import anyio
import anyio.abc
import h11
from anyio.abc import SocketAttribute
from anyio.from_thread import BlockingPortal, start_blocking_portal
from anyio.streams.tls import TLSStream
from wsproto.events import Ping

from tests.fakes.mattermost.faults import Faults
from tests.fakes.mattermost.links import Links
from tests.fakes.mattermost.rest import Answer, Request, answer, error_of, query_of
from tests.fakes.mattermost.state import Event, Map, Refused, State
from tests.fakes.mattermost.websocket import Socket, cut

T = TypeVar("T")
_SOCKET: Final = "/api/v4/websocket"


class FakeMattermost:
    """A Mattermost server with an owner, another person, a bot, and three channels; it listens inside `with`."""

    def __init__(self, port: int = 0, *, authenticate_within_s: float = 5.0, tls: ssl.SSLContext | None = None) -> None:
        self.faults = Faults()
        self.requests: list[Request] = []
        """Every request over REST, and each upgrade."""
        self.answered: list[tuple[Request, Answer]] = []
        """What was asked over REST and answered, for `openapi.problems`."""
        self.state = State(self.faults, self._tell)
        self.links = Links(self.state, self.faults)
        self.owner = self.state.add_user("owner")
        self.other = self.state.add_user("other")
        self.bot = self.state.add_user("boxmaker", is_bot=True)
        self.owner_token, self.bot_token = self.state.add_token(self.owner["id"]), self.state.add_token(self.bot["id"])
        everybody = [self.owner["id"], self.other["id"], self.bot["id"]]
        self.dm = self.state.direct(self.bot["id"], self.owner["id"])
        self.town = self.state.add_channel("O", "town-square", everybody)
        self.private = self.state.add_channel("P", "quiet", everybody)
        self.typed = 0
        """How often somebody's typing was told."""
        self._port = port
        self._tls = tls
        self._authenticate_within_s = authenticate_within_s
        self._sockets: set[Socket] = set()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Listen."""
        self._portal: BlockingPortal = self._stack.enter_context(start_blocking_portal())
        listener = self._portal.call(self._listen)
        self._port = listener.extra(SocketAttribute.local_port)
        serving = self._portal.start_task_soon(listener.serve, self._connection)
        self._stack.callback(serving.cancel)
        self._stack.callback(self._portal.call, listener.aclose)
        return self

    def __exit__(self, *exception: object) -> None:
        """Listen no more; every connection is reset."""
        self.reset_connections()
        self._stack.close()

    @property
    def url(self) -> str:
        """The server's address."""
        return f"https://localhost:{self._port}" if self._tls else f"http://127.0.0.1:{self._port}"

    # What people do.

    def say(self, user: Map, channel: Map, text: str, root: Map | None = None, **fields: Any) -> Map:
        """A user posts; the post."""
        body = {"channel_id": channel["id"], "message": text, "root_id": root["id"] if root else "", **fields}
        return self._do(lambda: self.state.create(user["id"], body))

    def edit(self, post_id: str, text: str) -> Map:
        """The author of a post changes it."""
        return self._do(lambda: self.state.edit(post_id, self.state.posts[post_id]["user_id"], {"message": text}))

    def delete(self, post_id: str) -> None:
        """The author of a post deletes it."""
        self._do(lambda: self.state.delete(post_id, self.state.posts[post_id]["user_id"]))

    def react(self, user: Map, post_id: str, emoji: str) -> Map:
        """A user reacts to a post."""
        return self._do(lambda: self.state.react(user["id"], post_id, emoji))

    def unreact(self, user: Map, post_id: str, emoji: str) -> None:
        """A user takes a reaction back."""
        self._do(lambda: self.state.unreact(user["id"], post_id, emoji))

    def type_(self, user: Map, channel: Map, root: Map | None = None) -> None:
        """A user types."""
        self._do(lambda: self.state.type_(user["id"], channel["id"], root["id"] if root else ""))

    # What a test looks at.

    def post(self, post_id: str) -> Map:
        """A post as it is now."""
        return self._do(lambda: dict(self.state.posts[post_id]))

    def posts(self, channel: Map, root: Map | None = None) -> list[Map]:
        """The posts of a channel, or of one thread without its first, oldest first; deleted ones are left out."""

        def found() -> list[Map]:
            here = [
                one for one in self.state.posts.values() if one["channel_id"] == channel["id"] and not one["delete_at"]
            ]
            return [dict(one) for one in here if root is None or one["root_id"] == root["id"]]

        return self._do(found)

    @property
    def connected(self) -> int:
        """How many WebSockets are open and authenticated."""
        return sum(one.link is not None for one in list(self._sockets))

    def wait(self, condition: Callable[[], T], timeout_s: float = 5.0) -> T:
        """The first true value of a condition."""
        until = time.monotonic() + timeout_s
        while not (found := condition()):
            assert time.monotonic() < until, "it did not become true in time"
            time.sleep(0.01)
        return found

    # What goes wrong.

    def reset_connections(self) -> None:
        """Every WebSocket breaks off."""
        self._each(lambda one: one.reset())

    def close_connections(self, code: int = 1001) -> None:
        """Every WebSocket is closed as the protocol says."""
        self._each(lambda one: one.close(code))

    def ping_connections(self) -> None:
        """Every client is asked whether it is there; `pongs` counts the answers."""
        self._each(lambda one: one.write(Ping(payload=b"there?")))

    @property
    def pongs(self) -> int:
        """How many pings of this server were answered on the connections that are open."""
        return sum(one.pongs for one in list(self._sockets))

    def forget_connections(self) -> None:
        """No link can be resumed: whoever comes back gets a new connection id."""
        self._do(self.links.forget)

    def forget_pending(self) -> None:
        """A `pending_post_id` that was used is known no more: the real server remembers it for a short time."""
        self._do(self.state.forget_pending)

    def skip_seq(self, count: int = 1) -> None:
        """The next event's number is higher than it should be."""
        self._do(lambda: self.links.skip(count))

    def release(self) -> None:
        """What `faults.hold_next` held back is sent."""
        self._do(self.links.release)

    def tell(self, name: str, data: Map, channel: Map | None = None) -> None:
        """Any event."""
        self._do(lambda: self.links.tell(Event(name, data, channel["id"] if channel else "")))

    def _do(self, act: Callable[[], T]) -> T:
        """Do something in the server's thread."""
        return self._portal.call(act)

    def _each(self, act: Callable[[Socket], None]) -> None:
        self._do(lambda: deque(map(act, list(self._sockets)), maxlen=0))

    def _tell(self, event: Event) -> None:
        self.typed += event.name == "typing"
        self.links.tell(event)

    async def _listen(self) -> anyio.abc.SocketListener:
        listeners = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self._port)
        listener = listeners.listeners[0]
        assert isinstance(listener, anyio.abc.SocketListener)
        return listener

    async def _connection(self, stream: anyio.abc.SocketStream) -> None:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError):
            async with stream:
                if self._tls is None:
                    await self._http(stream)
                    return
                secured = await TLSStream.wrap(
                    stream, ssl_context=self._tls, server_side=True, standard_compatible=False
                )
                await self._http(secured)

    async def _http(self, stream: anyio.abc.ByteStream) -> None:
        http = h11.Connection(h11.SERVER)
        while True:
            head = await _event(http, stream)
            if not isinstance(head, h11.Request):
                return
            body = bytearray()
            while isinstance(piece := await _event(http, stream), h11.Data):
                body += piece.data
            headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
            path, _, query = head.target.decode().partition("?")
            request = Request(head.method.decode(), path, query_of(query), headers, bytes(body))
            self.requests.append(request)
            if path == _SOCKET and headers.get("upgrade", "").lower() == "websocket":
                await self._websocket(stream, request, head, http.trailing_data[0])
                return
            await self._rest(stream, request, http)
            if http.our_state is not h11.DONE:
                return
            http.start_next_cycle()

    async def _rest(self, stream: anyio.abc.ByteStream, request: Request, http: h11.Connection) -> None:
        if self.faults.take("losing_requests"):
            cut(stream)
            raise anyio.EndOfStream
        found = self._refused(request.path) or answer(request, self._user(request), self.state)
        self.answered.append((request, found))
        if self.faults.take("losing_answers"):
            cut(stream)
            raise anyio.EndOfStream
        await anyio.sleep(self.faults.delay_s)
        is_json = not isinstance(found.value, bytes)
        data = json.dumps(found.value, ensure_ascii=False).encode() if is_json else found.value
        headers = {
            "Content-Type": "application/json" if is_json else "text/plain; charset=utf-8",
            "Content-Length": str(len(data)),
            "X-Request-Id": "req",
            **found.headers,
        }
        out = http.send(h11.Response(status_code=found.status, headers=list(headers.items()))) or b""
        out += http.send(h11.Data(data=data)) or b""
        await stream.send(out + (http.send(h11.EndOfMessage()) or b""))

    def _refused(self, path: str) -> Answer | None:
        faults = self.faults
        if path.endswith(faults.answer_path) and faults.take("answering"):
            error = error_of(Refused(faults.answer_status, "app.fake.app_error", "No."))
            return Answer(faults.answer_status, b"<html>Back soon</html>" if faults.answer_page else error)
        if faults.take("limiting"):
            is_epoch = faults.limit_reset == "epoch"
            headers = {"X-Ratelimit-Limit": "10", "X-Ratelimit-Remaining": "0"}
            headers["X-Ratelimit-Reset"] = str(int(time.time()) + faults.limit_s if is_epoch else faults.limit_s)
            headers |= {} if is_epoch else {"Retry-After": str(faults.limit_s)}
            return Answer(429, b"limit exceeded\n", headers)
        if faults.take("failing"):
            return Answer(faults.fail_status, error_of(Refused(faults.fail_status, "app.fake.app_error", "It fails.")))
        return None

    def _user(self, request: Request) -> str | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if self.faults.refuse_token or scheme.lower() not in ("bearer", "token"):
            return None
        return self.state.tokens.get(token)

    async def _websocket(self, stream: anyio.abc.ByteStream, request: Request, head: h11.Request, rest: bytes) -> None:
        opened = Socket(self.state, self.links, self.faults, stream, request)
        self._sockets.add(opened)
        try:
            await opened.run(head, rest, self._user(request), self._authenticate_within_s)
        finally:
            self._sockets.discard(opened)
            if opened.link is not None:
                self.links.leave(opened.link)


async def _event(http: h11.Connection, stream: anyio.abc.ByteStream) -> object:
    while (event := http.next_event()) is h11.NEED_DATA:
        try:
            http.receive_data(await stream.receive())
        except anyio.EndOfStream:
            http.receive_data(b"")
    return event
