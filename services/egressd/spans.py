"""run/spans-egress/spans.sock: the spans of every daemon, and where they go (contract, "Wire").

Without a collector there is no socket, which is how the daemons know that nobody wants a span, and OpenTelemetry is not
imported. Whatever comes as a datagram costs at most the reading of it.
"""

import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
import msgspec

from egressd.config import Traces
from proto import frame
from proto.faults import Fault
from proto.labels import DataClass
from proto.messages.spans import MOST_BYTES, Span
from proto.role import listen, trace
from proto.role.log import logger

Take = Callable[[Span], None]
_AT_ONCE: Final = 64
"""So many datagrams are read before another task has its turn."""
_CREDENTIALS: Final = struct.Struct("3i")
_ROOM_BYTES: Final = socket.CMSG_SPACE(_CREDENTIALS.size)
"""Room for the sender's credentials and for nothing else: file descriptors that come along are closed by the kernel."""
_CUT: Final = socket.MSG_TRUNC | socket.MSG_CTRUNC
_SPOKEN: Final = "http/protobuf"
_decoder: Final = frame.Decoder((Span,))


class Spans:
    """Where spans are taken: egressd's own, and those that come as datagrams."""

    def __init__(self, receiving: socket.socket, take: Take, ceiling: DataClass) -> None:
        self._receiving = receiving
        self._take = take
        self._ceiling = ceiling

    def is_open(self) -> bool:
        """Whether spans are wanted."""
        return True

    def send(self, span: Span) -> None:
        """Take a span, without its texts where they may not go that far."""
        self._take(within(span, self._ceiling))

    async def receive(self) -> None:
        """Take what comes, until cancelled."""
        while True:
            await anyio.wait_readable(self._receiving)
            self.take_waiting()

    def take_waiting(self) -> None:
        """Take what lies in the socket, not for ever."""
        with suppress(BlockingIOError):
            for _ in range(_AT_ONCE):
                span = _read(self._receiving)
                if span is not None:
                    self.send(span)


@contextmanager
def collected(path: Path, settings: Traces, environ: Mapping[str, str]) -> Iterator[Spans | None]:
    """For as long as the block lasts, spans are sent to the collector, if one is named.

    Raises:
        Fault: the socket cannot be opened.

    """
    endpoint = collector(settings, environ)
    exporting = None if endpoint is None else _exporting(endpoint)
    if exporting is None:
        listen.clear(path)
        yield None
        return
    take, close = exporting
    try:
        with listen.datagrams(path) as receiving:
            spans = Spans(receiving, take, settings.ceiling)
            trace.start("egressd", spans)
            try:
                yield spans
            finally:
                trace.start("egressd", None)
                spans.take_waiting()
    finally:
        listen.clear(path)
        close()


def collector(settings: Traces, environ: Mapping[str, str]) -> str | None:
    """The URL that spans are posted to, or None (OpenTelemetry, "OTLP exporter configuration").

    A variable that is empty counts as not set.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if "otlp" not in (environ.get("OTEL_TRACES_EXPORTER") or "otlp").replace(" ", "").split(","):
        return None
    found = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or settings.endpoint
    if not found and base:
        found = f"{base.removesuffix('/')}/v1/traces"
    protocol = (
        environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or _SPOKEN
    )
    if found and protocol != _SPOKEN:
        logger().warning("traces-not-sent", reason=f"traces are sent by {_SPOKEN} alone, not by {protocol}")
        return None
    return found or None


def within(span: Span, ceiling: DataClass) -> Span:
    """A span without texts of a class above the ceiling."""
    if span.texts and (span.class_ is None or span.class_.rank > ceiling.rank):
        return msgspec.structs.replace(span, texts={}, class_=None)
    return span


def _exporting(endpoint: str) -> tuple[Take, Callable[[], None]] | None:
    """What takes spans, and what ends it; None where a variable has a value that cannot be used: no traces, that is
    all.
    """
    from egressd.export import Exporter

    try:
        exporter = Exporter(endpoint)
    except Exception:  # noqa: BLE001  (whatever it is, the box runs without traces)
        logger().exception("traces-not-sent")
        return None
    return exporter.take, exporter.close


def _read(receiving: socket.socket) -> Span | None:
    """The next datagram, if it is a span of one who may send any.

    Raises:
        BlockingIOError: there is none.

    """
    data, ancillary, flags, _ = receiving.recvmsg(MOST_BYTES, _ROOM_BYTES)
    if flags & _CUT or not any(_is_ours(*item) for item in ancillary):
        return None
    with suppress(Fault):
        found: Span = _decoder.decode(data)
        return found
    return None


def _is_ours(level: int, kind: int, data: bytes) -> bool:
    """Whether these are the credentials of our own uid, or of root."""
    if (level, kind) != (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) or len(data) != _CREDENTIALS.size:
        return False
    return _CREDENTIALS.unpack(data)[1] in (0, os.geteuid())
