"""The model, asked through egressd: one HTTP/1.1 request on `run/loop-egress/egress.sock`, the answer streamed.

Nothing is asked twice: only a connect is tried again, for as long as egressd may take to start.
"""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import anyio.abc
import h11

from loopd.ports import errors
from loopd.ports.completion import GARBAGE, Completion
from loopd.ports.sse import EventStream
from loopd.turn.steps import Answered, Failed
from proto.role import trace

PATH: Final = "v1/chat/completions"
SESSION_HEADER: Final = "X-Boxmaker-Session"
CUT: Final = "the model's answer broke off before its end"
SILENT: Final = "the model was silent for too long"
UNREACHABLE: Final = "egressd, which leads to the model, does not answer"
_RETRY_SECONDS: Final = 0.1
_MOST_ERROR_BYTES: Final = 65536
_MOST_STREAM_BYTES: Final = 64 << 20


class Request(NamedTuple):
    """What is asked: of which destination, in which session, with which body."""

    destination: str
    session: str
    body: bytes


class ModelPort:
    """The way to the model. `timeout_s` bounds each silence, `connect_within_s` the wait for egressd."""

    def __init__(self, path: Path, timeout_s: float, connect_within_s: float = 2.0) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._connect_within_s = connect_within_s

    async def complete(
        self, request: Request, completion: Completion, show: Callable[[str], None]
    ) -> Answered | Failed:
        """The answer; its words are shown as they come, and are in `completion` also when this is cancelled."""
        try:
            connection = await self._connect()
        except OSError:
            return Failed("model-unavailable", UNREACHABLE)
        try:
            async with connection:
                return await _Exchange(connection, self._timeout_s).run(request, completion, show)
        except TimeoutError:
            return Failed("model-unavailable", SILENT)
        except (h11.ProtocolError, anyio.BrokenResourceError, anyio.EndOfStream, OSError):
            return Failed("model-unavailable", CUT)
        except ValueError as error:
            return Failed("model-error", str(error))

    async def _connect(self) -> anyio.abc.SocketStream:
        deadline = anyio.current_time() + self._connect_within_s
        while True:
            try:
                return await anyio.connect_unix(self._path)
            except OSError:
                if anyio.current_time() + _RETRY_SECONDS > deadline:
                    raise
                await anyio.sleep(_RETRY_SECONDS)


class _Exchange:
    """One request and its response on one connection."""

    def __init__(self, connection: anyio.abc.SocketStream, timeout_s: float) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._http = h11.Connection(h11.CLIENT)

    async def run(self, request: Request, completion: Completion, show: Callable[[str], None]) -> Answered | Failed:
        await self._send(request)
        response = await self._response()
        if response.status_code != 200:
            return errors.of_response(response.status_code, await self._all(_MOST_ERROR_BYTES))
        kind = dict(response.headers).get(b"content-type", b"")
        if kind.startswith(b"application/json"):
            return self._unstreamed(await self._all(_MOST_STREAM_BYTES), completion, show)
        return await self._streamed(completion, show)

    async def _send(self, request: Request) -> None:
        head = h11.Request(
            method="POST",
            target=f"/{request.destination}/{PATH}",
            headers=[
                ("Host", "egressd"),
                (SESSION_HEADER, request.session),
                ("Content-Type", "application/json"),
                ("Accept", "text/event-stream"),
                ("Content-Length", str(len(request.body))),
                ("Connection", "close"),
                *([("traceparent", under_way)] if (under_way := trace.current()) else []),
            ],
        )
        data = (self._http.send(head) or b"") + (self._http.send(h11.Data(data=request.body)) or b"")
        self._http.send(h11.EndOfMessage())
        try:
            with anyio.fail_after(self._timeout_s):
                await self._connection.send(data)
        except anyio.BrokenResourceError:
            # It may have been refused before it was read whole: the answer says so.
            pass

    async def _response(self) -> h11.Response:
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise anyio.EndOfStream

    async def _event(self) -> Any:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            with anyio.fail_after(self._timeout_s):
                try:
                    self._http.receive_data(await self._connection.receive())
                except anyio.EndOfStream:
                    self._http.receive_data(b"")

    async def _pieces(self, most_bytes: int) -> AsyncIterator[bytes]:
        size = 0
        while isinstance(event := await self._event(), h11.Data):
            size += len(event.data)
            if size > most_bytes:
                raise ValueError(GARBAGE)
            yield bytes(event.data)

    async def _all(self, most_bytes: int) -> bytes:
        """The body; an error's body may be cut, and says what it can."""
        data = bytearray()
        try:
            async for piece in self._pieces(most_bytes):
                data += piece
        except (h11.ProtocolError, anyio.BrokenResourceError, ValueError):
            return bytes(data)
        return bytes(data)

    def _unstreamed(self, data: bytes, completion: Completion, show: Callable[[str], None]) -> Answered | Failed:
        """A server that does not stream answers at once."""
        chunk = _json(data.decode(errors="replace"))
        if failed := errors.of_chunk(chunk):
            return failed
        if words := completion.add(chunk):
            show(words)
        return completion.answer() if completion.finish else Failed("model-unavailable", CUT)

    async def _streamed(self, completion: Completion, show: Callable[[str], None]) -> Answered | Failed:
        events = EventStream()
        async for piece in self._pieces(_MOST_STREAM_BYTES):
            ended = _take(events.feed(piece), completion, show)
            if ended is not None:
                return ended
        ended = _take(events.close(), completion, show)
        if ended is not None:
            return ended
        # Some servers say why they stop, and leave the last mark out.
        return completion.answer() if completion.finish else Failed("model-unavailable", CUT)


def _take(events: list[str], completion: Completion, show: Callable[[str], None]) -> Answered | Failed | None:
    """Take the events of one read and show their words at once; the end, if it is among them."""
    words: list[str] = []
    ended: Answered | Failed | None = None
    for event in events:
        if event.strip() == "[DONE]":
            ended = completion.answer()
        else:
            chunk = _json(event)
            ended = errors.of_chunk(chunk)
            if ended is None:
                words.append(completion.add(chunk))
        if ended is not None:
            break
    if shown := "".join(words):
        show(shown)
    return ended


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(GARBAGE) from None
