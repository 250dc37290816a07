"""egressd as loopd's Mattermost channel and its model port see it: one Unix socket, and nothing decided.

Features: a path under `/mattermost/` goes to a server on loopback with its token put on, WebSockets too; any other goes
to the scripted model's own socket. `asked` are the heads of the Mattermost requests; `refuse` makes every request that
carries a session's words a refusal of egressd's with that code.
"""

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import msgspec

_PREFIX = b"/mattermost/"


class Gateway:
    """The socket; it listens inside `with`."""

    def __init__(self, path: Path, server: str, token: str, model: Path) -> None:
        self.asked: list[str] = []
        self.refuse: str | None = None
        self._path = path
        self._address = urlsplit(server)
        self._token = token
        self._model = model
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        """Listen."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(5)
        return self

    def __exit__(self, *exception: object) -> None:
        """End."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def cut(self) -> None:
        """Reset every connection that is open."""

        async def cut() -> None:
            for task in self._tasks - {asyncio.current_task()}:
                task.cancel()

        asyncio.run_coroutine_threadsafe(cut(), self._loop).result(5)

    async def _listen(self) -> None:
        self._listener = await asyncio.start_unix_server(self._client, self._path)

    async def _end(self) -> None:
        if self._listener is not None:
            # asyncio forgets a connection that it has accepted and not taken up when its server is closed.
            while any("_accept_connection2" in str(one.get_coro()) for one in asyncio.all_tasks()):  # noqa: ASYNC110  (none)
                await asyncio.sleep(0)
            self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # A transport lets go of its socket a turn of the loop later; one that had none would warn in the next test.
        for _ in range(3):
            await asyncio.sleep(0)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            await _closed(writer)
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head[:-4].split(b"\r\n")
        method, path, version = lines[0].split(b" ")
        if not path.startswith(_PREFIX):
            there = await asyncio.open_unix_connection(self._model)
            await _splice(head, (reader, writer), there)
            return
        self.asked.append(head.decode("latin-1"))
        if self.refuse is not None and b"x-boxmaker-session" in head.lower():
            body = msgspec.json.encode({"id": f"boxmaker.{self.refuse}", "message": "not now"})
            writer.write(b"HTTP/1.1 403 No\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body))
            await writer.drain()
            return
        kept = [line for line in lines[1:] if not line.lower().startswith((b"x-boxmaker-", b"host:"))]
        host = f"Host: {self._address.netloc}".encode()
        token = f"Authorization: Bearer {self._token}".encode()
        lines = [b" ".join((method, b"/" + path.removeprefix(_PREFIX), version)), host, token, *kept]
        there = await asyncio.open_connection(self._address.hostname, self._address.port)
        await _splice(b"\r\n".join(lines) + b"\r\n\r\n", (reader, writer), there)


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _splice(first: bytes, here: Ends, there: Ends) -> None:
    """Carry bytes both ways until one side ends."""
    there[1].write(first)
    ways = [asyncio.ensure_future(_pump(here[0], there[1])), asyncio.ensure_future(_pump(there[0], here[1]))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await _closed(there[1])


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Close a connection to its end: one that is closed when the loop stops is told of as forgotten."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
