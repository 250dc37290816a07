"""The beginning of TLS through a tunnel: what the client says is held here until it may leave, and no byte before.

A server may ask for a second hello and believe the name in that one (RFC 8446, 4.1.4): it is read like the first.
So nothing of the client passes between its first hello and the server's first answer, whatever the client sends ahead.
"""

import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from egressd.wire import hello
from egressd.wire.dial import Upstream
from egressd.wire.door import Gone
from egressd.wire.splice import Inward, Splice
from proto.faults import Fault

T = TypeVar("T")


class Greeting:
    """The hellos of one tunnel, each of which must name its host."""

    def __init__(self, client: Inward, host: str, hello_s: float) -> None:
        self._client = client
        self._host = host
        self._hello_s = hello_s
        self._held = bytearray()
        self._first_bytes = 0

    def hold(self, data: bytes) -> None:
        """Take what the client has sent already."""
        self._held += data

    async def heard(self, within_s: float) -> bool:
        """Wait for the first byte; whether one came. Clients open tunnels ahead, and close what they do not use."""
        if not self._held:
            with anyio.move_on_after(within_s), contextlib.suppress(Gone):
                self._held += await self._received()
        return bool(self._held)

    async def read(self) -> None:
        """Read the first hello.

        Raises:
            Refused: it is none that names the host.
            Gone: the client left before its end.

        """
        self._first_bytes = await self._hello(hello.HelloReader())

    async def send(self, splice: Splice, upstream: Upstream, answer_s: float) -> None:
        """Send the first hello, and a second one where the server asks for it; then what the client has sent since.

        Raises:
            Refused: the second hello is none that names the host.
            Fault: `upstream-unreachable`.
            Gone: the client left.

        """
        await self._sent(splice, self._first_bytes)
        if await _asks_again(splice, upstream, answer_s):
            await self._hello(hello.HelloReader(again=True))
        await self._sent(splice, len(self._held))

    async def _hello(self, reader: hello.HelloReader) -> int:
        """Read a hello; how many of the bytes that are held are its own."""
        try:
            with anyio.fail_after(self._hello_s):
                found = reader.feed(bytes(self._held))
                while found is None:
                    piece = await self._received()
                    self._held += piece
                    found = reader.feed(piece)
        except TimeoutError:
            raise hello.Refused("late") from None
        hello.check(found, self._host)
        return reader.taken_bytes

    async def _sent(self, splice: Splice, size_bytes: int) -> None:
        data = bytes(self._held[:size_bytes])
        del self._held[:size_bytes]
        if data:
            await _or(splice.up(data), _broken)

    async def _received(self) -> bytes:
        piece = await _or(self._client.receive(), Gone)
        if not piece:
            raise Gone
        return piece


async def _asks_again(splice: Splice, upstream: Upstream, answer_s: float) -> bool:
    """Carry the beginning of the server's answer; whether it asks for a second hello."""
    reader = hello.AnswerReader()
    found: bool | None = None
    while found is None:
        try:
            with anyio.fail_after(answer_s):
                piece = await _or(upstream.receive(), _broken)
        except TimeoutError:
            raise Fault("upstream-unreachable", "the host did not answer the TLS hello in time") from None
        if not piece:
            return False
        found = reader.feed(piece)
        await _or(splice.down(piece), Gone)
    return found


async def _or(moving: Awaitable[T], failure: Callable[[], Exception]) -> T:
    try:
        return await moving
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        raise failure() from None


def _broken() -> Fault:
    return Fault("upstream-unreachable", "the host broke off in the TLS handshake")
