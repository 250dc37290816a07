"""One request of egressd's own on a connection, and its whole answer, in bounded space."""

from typing import NamedTuple

import anyio
import h11

from egressd.wire.dial import Upstream
from proto.faults import Fault

_LONGEST_HEAD_BYTES = 64 << 10


class Exchanged(NamedTuple):
    """An answer."""

    head: h11.Response
    body: bytes


async def exchange(request: h11.Request, upstream: Upstream, name: str, most_bytes: int, within_s: float) -> Exchanged:
    """Ask a destination by its name, and close the connection.

    Raises:
        Fault: `upstream-unreachable`: there is no whole answer in time, or a longer one.

    """
    try:
        with anyio.fail_after(within_s):
            return await _exchanged(request, upstream, name, most_bytes)
    except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError, h11.ProtocolError):
        raise Fault("upstream-unreachable", f"{name} gave no whole answer") from None
    finally:
        await upstream.aclose()


async def _exchanged(request: h11.Request, upstream: Upstream, name: str, most_bytes: int) -> Exchanged:
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD_BYTES)
    await upstream.send((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
    head: h11.Response | None = None
    body = bytearray()
    while True:
        event = http.next_event()
        match event:
            case h11.NEED_DATA:
                http.receive_data(await upstream.receive())
            case h11.Response():
                head = event
            case h11.Data(data=data):
                body += data
                if len(body) > most_bytes:
                    raise Fault("upstream-unreachable", f"{name} gave an answer that is too long")
            case h11.EndOfMessage() if head is not None:
                return Exchanged(head, bytes(body))
            case h11.ConnectionClosed():
                raise Fault("upstream-unreachable", f"{name} gave no whole answer")
            case _:
                pass
