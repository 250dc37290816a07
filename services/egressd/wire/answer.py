"""The way back of a call, without I/O: bytes of the upstream in, bytes for the client out, the usage read on the way.

Laws (tested): the body that comes out is the body that went in, however the stream is cut; so is the usage; after the
client has left nothing comes out and the rest is only read; memory is bounded.
"""

from typing import Final, Protocol

from egressd.meter.usage import Meter, Usage
from egressd.wire.heads import for_client
from egressd.wire.http import CLOSE, Headers, Incoming, Malformed, Outgoing, Request, Response, request_head
from egressd.wire.inflate import Inflater, Overflow, inflater
from egressd.wire.redact import Redactor

_MOST_METERED_BYTES: Final = 256 << 20
_MOST_UNREAD_BYTES: Final = 4 << 10
_LAST_CHUNK: Final = b"0\r\n\r\n"
_COMPRESSED: Final = "the destination compressed its answer, though asked not to: its key could not be masked in it"


class Kept(Protocol):
    """Takes what is kept of an answer."""

    def head(self, status: int, headers: Headers) -> None:
        """The head."""
        ...

    def data(self, piece: bytes) -> None:
        """The next piece of the body."""
        ...


class Answer:
    """One call on both wires: `to_upstream` makes the request's bytes, `receive` turns the answer's."""

    def __init__(
        self,
        client: Incoming,
        request: Request,
        meter: Meter | None,
        redactor: Redactor,
        own: Redactor | None = None,
    ) -> None:
        """Begin; `request` is what the upstream gets.

        `redactor` masks what egressd holds, `own` the client's own credentials in what is kept.
        """
        self._client = client
        self._request = request
        self._upstream = Outgoing(request.method)
        self._meter = meter
        self._redactor = redactor
        self._own = own or Redactor()
        self.kept: Kept | None = None
        """Takes what is kept of the answer, from when the call was allowed."""
        self._inflater: Inflater | None = None
        self._unread: list[bytes] = []
        """What has passed and is not metered."""
        self._over = False
        self._chunked = False
        """Whether the client gets the body in chunks."""
        self.status: int | None = None
        """The status of the upstream, once its head has come."""
        self.begun = False
        """Whether a byte of the request may have left."""
        self.uploaded = False
        """Whether the whole request has left."""
        self.complete = False
        """Whether the whole answer has been read."""
        self.broken = False
        """Whether what came is no HTTP/1.1, or ended before its end: the client cannot be told the rest."""
        self.problem = "the destination broke off before it answered"
        """What is wrong with an answer that is broken before its head has passed."""
        self.client_left = False
        self.read_after_bytes = 0
        """How much was read after the client had left."""

    @property
    def usage(self) -> Usage:
        """The tokens reported so far, but for a little that came last and is read with what comes next."""
        return Usage() if self._meter is None else self._meter.usage

    @property
    def model(self) -> str | None:
        """The model that the upstream named; a key in it is masked, however it was escaped on the wire."""
        model = None if self._meter is None else self._meter.model
        return None if model is None else self._redactor.text(model)

    @property
    def reusable(self) -> bool:
        """Whether the upstream's connection may carry another exchange: both sides have ended this one, and say so."""
        return self.uploaded and self._upstream.reusable

    def to_upstream(self) -> bytes:
        """The bytes of the head of the request; those of its body leave as they are."""
        self.begun = True
        return request_head(self._request)

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the upstream, or none for its end; the bytes for the client.

        What came last is metered with what comes next, unless it is much: what others wait for passes first.
        """
        self._meter_unread()
        if self.complete:
            # Behind the answer: its connection is used no more.
            self._upstream.feed(data)
            return b""
        if self.client_left:
            self.read_after_bytes += len(data)
        upstream, out = self._upstream, list[bytes]()
        try:
            upstream.feed(data)
        except Malformed:
            self.broken = True
        if self.status is None and upstream.head is not None and not self._head(upstream.head, out):
            return b""
        for piece in upstream.take():
            self._unread.append(piece)
            self._body(self._redactor.feed(piece), out)
        if len(data) > _MOST_UNREAD_BYTES:
            self._meter_unread()
        if upstream.whole:
            self._end(out)
        return b"".join(out)

    def stop(self) -> None:
        """Take what is known of an answer that will not go on."""
        if self._over:
            return
        self._over = True
        self._meter_unread()
        if self._meter is not None:
            self._meter.end()
        if self.kept is not None and (hidden := self._own.end()):
            self.kept.data(hidden)

    def _head(self, response: Response, out: list[bytes]) -> bool:
        """Take the head; false where the answer must not pass."""
        encoding = b",".join(value for name, value in response.headers if name.lower() == b"content-encoding")
        if self._redactor.active and _is_compressed(encoding):
            self.broken, self.problem = True, _COMPRESSED
            return False
        self.status = response.status
        self._inflater = inflater(encoding.decode("latin-1"), _MOST_METERED_BYTES)
        mask = self._redactor.whole
        headers = [(mask(name), mask(value)) for name, value in for_client(response)]
        if self.kept is not None:
            hide = self._own.whole
            self.kept.head(response.status, [(hide(name), hide(value)) for name, value in headers])
            if self._own.active and _is_compressed(encoding):
                # Asked not to be: what is in it cannot be masked, so it is not kept.
                self.kept = None
        if not self.client_left:
            start, self._chunked = self._client.answer(
                Response(response.status, [*headers, CLOSE], mask(response.reason))
            )
            out.append(start)
        return True

    def _body(self, data: bytes, out: list[bytes]) -> None:
        if data and not self.client_left:
            out.append(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
        if self.kept is not None and (hidden := self._own.feed(data)):
            self.kept.data(hidden)

    def _end(self, out: list[bytes]) -> None:
        """Take the end of the body."""
        self._body(self._redactor.end(), out)
        if self._chunked and not self.client_left:
            out.append(_LAST_CHUNK)
        self.stop()
        self.complete = True

    def _meter_unread(self) -> None:
        unread, self._unread = self._unread, []
        for piece in unread:
            self._read(piece)

    def _read(self, data: bytes) -> None:
        """Meter a copy."""
        if self._meter is None or self._inflater is None:
            return
        try:
            self._meter.feed(self._inflater.feed(data))
        except (Overflow, ValueError):
            self._inflater = None


def _is_compressed(encoding: bytes) -> bool:
    return encoding.strip().lower() not in (b"", b"identity")
