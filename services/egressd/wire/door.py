"""A client's HTTP/1.1 connection: one request read whole, in bounded time and space, and then an answer written.

The body is spooled: in memory up to 1 MiB, above that in a file without a name. What the clients of one session hold
together is bounded too: many bodies that never end would otherwise fill the memory, and then the disk.
"""

import contextlib
import io
import select
import tempfile
from pathlib import Path
from typing import IO, Final

import anyio
import anyio.abc

from egressd.config import Relay
from egressd.routes import api_of
from egressd.wire.http import Incoming, Malformed, Request, Response, TooLarge, response_head
from egressd.wire.refusal import refusal
from proto.faults import Fault
from proto.role.raw import Raw, deadline, send_within
from proto.rules import Api

_LONGEST_HEAD_BYTES: Final = 32 << 10
_IN_MEMORY_BYTES: Final = 1 << 20
_HELD_IN_MEMORY_BYTES: Final = 64 << 20
"""When more than that is held at once, every body that goes on goes to a file."""
_MOST_HELD_BYTES: Final = 4 << 30
_PIECE_BYTES: Final = 64 << 10
_MOST_SMALL_CHUNKS: Final = 1_000
_SMALL_CHUNK_BYTES: Final = 64
"""Each chunk costs as much as some thousand bytes; a client that sends very many sends larger ones."""
_HEAD_TOO_LARGE: Final = "the head of the request is too large"
_LINGER_S: Final = 1.0
_LINGER_BYTES: Final = 64 << 20


class Gone(Exception):
    """The client has gone, or sends nothing that could be answered."""


class Held:
    """How many bytes of bodies are held at once for the clients that share it."""

    def __init__(self, most_bytes: int = _MOST_HELD_BYTES) -> None:
        self.bytes = 0
        self.most_bytes = most_bytes


class Spool:
    """A body so far; what it holds is given back when it is closed."""

    def __init__(self, folder: Path, held: Held) -> None:
        self.file: IO[bytes] = io.BytesIO()
        """Where it is: in memory, or in a file without a name."""
        self.is_on_disk = False
        self._folder = folder
        self._held = held
        self._own_bytes = 0

    def take(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            Fault: `busy`: too much is held already.

        """
        self._own_bytes += len(data)
        self._held.bytes += len(data)
        if self._held.bytes > self._held.most_bytes:
            raise Fault("busy", "too much is being sent at once; try again")
        if self._own_bytes > _IN_MEMORY_BYTES or self._held.bytes > _HELD_IN_MEMORY_BYTES:
            self._go_to_disk()
        self.file.write(data)

    def close(self) -> None:
        """Let it go."""
        self._held.bytes -= self._own_bytes
        self._own_bytes = 0
        self.file.close()

    def __enter__(self) -> IO[bytes]:
        """The whole body, from its beginning."""
        self.file.seek(0)
        return self.file

    def __exit__(self, *_: object) -> None:
        self.close()

    def _go_to_disk(self) -> None:
        if not self.is_on_disk:
            self.file.seek(0)
            on_disk = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  (closed with the spool)
            on_disk.write(self.file.read())
            self.file.close()
            self.file, self.is_on_disk = on_disk, True


class Client:
    """One connection."""

    def __init__(self, stream: Raw, limits: Relay, spool_folder: Path, held: Held | None = None) -> None:
        """`held` is shared by the clients whose bodies are bounded together."""
        self.http = Incoming(_LONGEST_HEAD_BYTES)
        self.api: Api = "openai-chat"
        """The API in whose shape a refusal is told; set when the request's is known."""
        self._stream = stream
        self._limits = limits
        self._folder = spool_folder
        self._held = held or Held()
        self._fault: Fault | None = None
        """What is wrong with what has come; what came before it is read."""

    @property
    def has_left(self) -> bool:
        """Whether the client has closed its connection; one that only says no more is still there."""
        poll = select.poll()
        # Of a peer that is gone it is told whatever is asked for (poll(2), POLLHUP).
        poll.register(self._stream.socket, 0)
        return bool(poll.poll(0))

    async def head(self) -> Request:
        """The head of the request.

        Raises:
            Fault: `request-invalid`: it is not HTTP/1.1, or not whole in time; `request-too-large`.
            Gone: nothing came.

        """
        self._hear()
        by = deadline(self._limits.head_s)
        while (head := self._head()) is None:
            await self._more(by, "head")
        self.api = api_of(head.target.decode("ascii").partition("?")[0], ())
        # A head that is not whole yet is bounded; one that came whole in one piece may be longer.
        if sum(len(name) + len(value) for name, value in head.headers) > _LONGEST_HEAD_BYTES:
            raise Fault("request-too-large", _HEAD_TOO_LARGE)
        return head

    async def body(self, most_bytes: int | None = None) -> Spool:
        """The whole body; `most_bytes` is a smaller bound than that of relayed calls.

        Raises:
            Fault: `request-too-large`, `request-invalid`, `busy`.
            Gone: the client left before its end.

        """
        spool = Spool(self._folder, self._held)
        filling = _Filling(spool, most_bytes or self._limits.body_bytes)
        try:
            if not self._fill(filling):
                await self._fill_on(filling)
        except BaseException:
            spool.close()
            raise
        return spool

    async def send(self, data: bytes) -> None:
        """Send bytes of the answer.

        Raises:
            Gone: the client takes no more.

        """
        if not data:
            return
        try:
            await send_within(self._stream.socket, data, self._limits.stall_s)
        except (OSError, anyio.ClosedResourceError):
            # Too long without a byte taken is an OSError, too.
            raise Gone from None

    async def refuse(self, fault: Fault) -> None:
        """Tell the client of a fault, in the shape of its API, if it can still be told."""
        try:
            await self.send(refusal(self.http, fault, self.api))
        except Gone:
            return
        await self.linger()

    async def linger(self) -> None:
        """Read on for a moment, so that a client that still sends can read its answer before the connection breaks."""
        read_bytes = 0
        with anyio.move_on_after(_LINGER_S):
            try:
                await self._stream.send_eof()
                while read_bytes < _LINGER_BYTES:
                    read_bytes += len(await self._stream.receive(_PIECE_BYTES))
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                return

    def _fill(self, filling: "_Filling") -> bool:
        """Take what has come of the body; whether that is all of it.

        Raises:
            Fault: as `body`.
            Gone: the client left before its end.

        """
        filling.take(self.http.take(), self.http.chunks)
        if self._fault is not None:
            raise self._fault
        return self.http.whole

    async def _fill_on(self, filling: "_Filling") -> None:
        """Take the rest of the body as it comes. Raises as `_fill`."""
        by = deadline(self._limits.body_s)
        if self.http.waits:
            await self.send(response_head(Response(100, [])))
        while not self._fill(filling):
            await self._more(by, "body")

    def _head(self) -> Request | None:
        """The head, if it is here.

        Raises:
            Fault: `request-invalid`, `request-too-large`.

        """
        if self.http.head is None and self._fault is not None:
            raise self._fault
        return self.http.head

    def _hear(self) -> None:
        """Take what has come already: most requests are there as a whole when their client is let in."""
        with contextlib.suppress(OSError):
            self._take(self._stream.socket.recv(_PIECE_BYTES))

    async def _more(self, by: float, part: str) -> None:
        """Wait for more bytes, or the end, of a part that is here by a time of the loop's clock.

        Raises:
            Fault: `request-invalid`: nothing came by then.
            Gone: it has closed.

        """
        try:
            data = await self._stream.receive(_PIECE_BYTES, by)
        except TimeoutError:
            raise Fault("request-invalid", f"the {part} of the request did not arrive whole in time") from None
        except anyio.EndOfStream:
            data = b""
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise Gone from None
        self._take(data)

    def _take(self, data: bytes) -> None:
        """Read bytes, or the end of what the client says.

        Raises:
            Gone: it has said nothing.

        """
        if not data and not self.http.begun:
            raise Gone
        try:
            self.http.feed(data)
        except TooLarge:
            self._fault = Fault("request-too-large", _HEAD_TOO_LARGE)
        except Malformed:
            # The sentence quotes nothing of the request.
            self._fault = Fault("request-invalid", "the request is not HTTP/1.1")


class _Filling:
    """A body that comes in: where it goes, and what it may still have."""

    def __init__(self, spool: Spool, most_bytes: int) -> None:
        self._spool = spool
        self._most_bytes = most_bytes
        self._bytes = 0

    def take(self, pieces: list[bytes], chunks: int) -> None:
        """Take what has come since the last time, when so many chunks have come in all.

        Raises:
            Fault: `request-too-large`, `request-invalid`, `busy`.

        """
        self._bytes += sum(map(len, pieces))
        if self._bytes > self._most_bytes:
            raise Fault("request-too-large", f"the body is larger than {self._most_bytes} bytes")
        if chunks > _MOST_SMALL_CHUNKS and self._bytes < chunks * _SMALL_CHUNK_BYTES:
            raise Fault("request-invalid", "the body of the request comes in too small chunks")
        for piece in pieces:
            self._spool.take(piece)
