"""Connections out: to a destination, or to an address that a fetch has checked. TLS, DNS and sockets are here alone."""

import contextlib
import errno
import math
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSStream

from egressd.destinations import Target
from proto.faults import Fault
from proto.role.raw import Raw, deadline, writable

_PIECE_BYTES: Final = 64 << 10
_AT_ONCE: Final = struct.pack("ii", 1, 0)

Resolver = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host's name; raises OSError when it has none."""


class Upstream:
    """One connection out."""

    def __init__(self, stream: anyio.abc.ByteStream, raw: socket.socket) -> None:
        """`stream` is what is spoken over the socket."""
        self._stream = stream
        self._raw = raw

    async def send(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            anyio.BrokenResourceError: the other side takes no more.

        """
        await self._stream.send(data)

    async def receive(self, by: float = math.inf) -> bytes:
        """The next bytes, waited for no longer than to a time of the loop's clock; none at the end.

        Raises:
            TimeoutError: nothing came by then.
            anyio.BrokenResourceError: the connection broke, or TLS ended without its end.

        """
        try:
            if isinstance(self._stream, Raw):
                return await self._stream.receive(_PIECE_BYTES, by)
            with anyio.CancelScope(deadline=by):
                return await self._stream.receive(_PIECE_BYTES)
            raise TimeoutError
        except anyio.EndOfStream:
            return b""
        except ssl.SSLError:
            raise anyio.BrokenResourceError from None

    async def send_eof(self) -> None:
        """Tell the other side that nothing more will be sent; what it sends is still received. Not over TLS."""
        # The other side may have closed already.
        with contextlib.suppress(OSError):
            await self._stream.send_eof()

    def cut(self) -> None:
        """Make the connection carry nothing more, at once and from any task."""
        # What the kernel has taken and not sent is thrown away when the connection is closed (socket(7), SO_LINGER).
        with contextlib.suppress(OSError):
            self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            self._raw.shutdown(socket.SHUT_RDWR)

    async def aclose(self) -> None:
        """Close it without waiting for the other side, also when cancelled."""
        if isinstance(self._stream, Raw):
            self._stream.close()
            return
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(self._stream)


async def dial(target: Target, tls: ssl.SSLContext, within_s: float) -> Upstream:
    """A connection to a destination.

    Raises:
        OSError: nobody answers there, or not in time (TimeoutError), or TLS fails (ssl.SSLError).

    """
    if target.unix is None and not target.tls:
        # http goes to loopback only, whatever the name `localhost` is made to mean.
        addresses = ("127.0.0.1", "::1") if target.host == "localhost" else (target.host,)
        return await dial_plain(addresses, target.port, within_s)
    with anyio.fail_after(within_s):
        return await _dialled(target, tls)


async def _dialled(target: Target, tls: ssl.SSLContext) -> Upstream:
    if target.unix is not None:
        stream = await anyio.connect_unix(target.unix)
        return Upstream(stream, stream.extra(SocketAttribute.raw_socket))  # noqa: S610  (not Django)
    tcp = await anyio.connect_tcp(target.host, target.port)
    raw: socket.socket = tcp.extra(SocketAttribute.raw_socket)  # noqa: S610  (not Django)
    return Upstream(await _secured(tcp, target.host, tls), raw)


async def dial_address(addresses: Sequence[str], port: int, tls_name: str | None, tls: ssl.SSLContext) -> Upstream:
    """A connection to the first of some checked addresses that answers; with TLS for a name, if one is given.

    Raises:
        OSError: as `dial`.

    """
    raw = await _connected(addresses, port)
    return Upstream(Raw(raw) if tls_name is None else await _secured(Raw(raw), tls_name, tls), raw)


async def dial_plain(addresses: Sequence[str], port: int, within_s: float = math.inf) -> Upstream:
    """A connection to the first of some checked addresses that answers; TLS, if any, is the business of its ends.

    Raises:
        OSError: nobody answers there, or not in time (TimeoutError).

    """
    raw = await _connected(addresses, port, deadline(within_s))
    return Upstream(Raw(raw), raw)


async def _connected(addresses: Sequence[str], port: int, by: float = math.inf) -> socket.socket:
    failure: OSError = ConnectionRefusedError("no address")
    for address in addresses:
        try:
            return await _opened(address, port, by)
        except OSError as error:
            failure = error
    raise failure


async def _opened(address: str, port: int, by: float) -> socket.socket:
    """A connection to an address. Names and their races are `connect_tcp`'s; an address needs neither."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    raw = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        error = raw.connect_ex((address, port))
        if error == errno.EINPROGRESS:
            # On this machine's own addresses it is done by now, and asking once more says how it ended.
            error = raw.connect_ex((address, port))
        if error == errno.EALREADY:
            await writable(raw, by)
            error = raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error not in (0, errno.EISCONN):
            raise OSError(error, os.strerror(error))
        return raw
    except BaseException:
        raw.close()
        raise


async def _secured(stream: anyio.abc.ByteStream, name: str, tls: ssl.SSLContext) -> TLSStream:
    try:
        return await TLSStream.wrap(stream, hostname=name, ssl_context=tls)
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        await anyio.aclose_forcefully(stream)
        raise ConnectionResetError("the connection broke off in the TLS handshake") from None
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(stream)
        raise


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system resolves it, each once."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """How TLS is spoken: TLS 1.2 or newer, certificates and names checked, HTTP/1.1.

    Raises:
        Fault: `egressd-start-failed`: the file of further authorities cannot be used.

    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # Some Pythons (Debian's 3.11.2) begin with it: a connection that breaks off would then look as if it had ended.
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=Path(ca_file).expanduser())
        except (OSError, ssl.SSLError) as error:
            raise Fault("egressd-start-failed", f"[tls] ca_file {ca_file}: {error}") from None
    return context
