"""One request of egressd's own on a connection, and its whole answer, in bounded space."""

from typing import NamedTuple

import anyio

from egressd.wire.dial import Upstream
from egressd.wire.http import Malformed, Outgoing, Request, Response, request_head
from proto.faults import Fault


class Exchanged(NamedTuple):
    """An answer."""

    head: Response
    body: bytes


async def exchange(request: Request, upstream: Upstream, name: str, most_bytes: int, within_s: float) -> Exchanged:
    """Ask a destination by its name, and close the connection.

    Raises:
        Fault: `upstream-unreachable`: there is no whole answer in time, or a longer one.

    """
    try:
        with anyio.fail_after(within_s):
            return await _exchanged(request, upstream, name, most_bytes)
    except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError, Malformed):
        raise Fault("upstream-unreachable", f"{name} gave no whole answer") from None
    finally:
        await upstream.aclose()


async def _exchanged(request: Request, upstream: Upstream, name: str, most_bytes: int) -> Exchanged:
    await upstream.send(request_head(request))
    return await whole(Outgoing(request.method), upstream, name, most_bytes)


async def whole(answer: Outgoing, upstream: Upstream, name: str, most_bytes: int) -> Exchanged:
    """An answer read to its end.

    Raises:
        Fault: `upstream-unreachable`: it is too long.
        Malformed: it is no HTTP, or breaks off.

    """
    body = bytearray()
    while (head := answer.head) is None or not answer.whole:
        answer.feed(await upstream.receive())
        body += b"".join(answer.take())
        if len(body) > most_bytes:
            raise Fault("upstream-unreachable", f"{name} gave an answer that is too long")
    return Exchanged(head, bytes(body))
