"""The way back of a call, without I/O: bytes of the upstream in, bytes for the client out, the usage read on the way.

Laws (tested): the body that comes out is the body that went in, however the stream is cut; so is the usage; after the
client has left nothing comes out and the rest is only read; memory is bounded.
"""

from typing import Final, Protocol

import h11

from egressd.meter.usage import Meter, Usage
from egressd.wire.heads import Headers, for_client
from egressd.wire.inflate import Inflater, Overflow, inflater
from egressd.wire.redact import Redactor

_LONGEST_HEAD_BYTES: Final = 64 << 10
_MOST_METERED_BYTES: Final = 256 << 20
_LAST_CHUNK: Final = b"0\r\n\r\n"
_NO_BODY: Final = (204, 304)
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
        client: h11.Connection,
        meter: Meter | None,
        redactor: Redactor,
        own: Redactor | None = None,
    ) -> None:
        """Begin; `redactor` masks what egressd holds, `own` the client's own credentials in what is kept."""
        self._client = client
        self._upstream = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD_BYTES)
        self._meter = meter
        self._redactor = redactor
        self._own = own or Redactor()
        self.kept: Kept | None = None
        """Takes what is kept of the answer, from when the call was allowed."""
        self._inflater: Inflater | None = None
        self._over = False
        self._method = b""
        self._chunked = False
        """Whether the client gets the body in chunks."""
        self.status: int | None = None
        """The status of the upstream, once its head has come."""
        self.begun = False
        """Whether a byte of the request may have left."""
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
        """The tokens reported so far."""
        return Usage() if self._meter is None else self._meter.usage

    @property
    def model(self) -> str | None:
        """The model that the upstream named; a key in it is masked, however it was escaped on the wire."""
        model = None if self._meter is None else self._meter.model
        return None if model is None else self._redactor.text(model)

    @property
    def reusable(self) -> bool:
        """Whether the upstream's connection may carry another exchange: both sides have ended this one, and say so."""
        both = (self._upstream.our_state, self._upstream.their_state)
        return both == (h11.DONE, h11.DONE) and self._upstream.trailing_data == (b"", False)

    def to_upstream(self, event: h11.Request | h11.Data | h11.EndOfMessage) -> bytes:
        """The bytes of a part of the request."""
        self.begun = True
        if isinstance(event, h11.Request):
            self._method = event.method
        return self._upstream.send(event) or b""

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the upstream, or none for its end; the bytes for the client."""
        if self.client_left:
            self.read_after_bytes += len(data)
        out: list[bytes] = []
        try:
            self._upstream.receive_data(data)
            while self._step(out):
                pass
        except h11.RemoteProtocolError:
            self.broken = True
        return b"".join(out)

    def stop(self) -> None:
        """Take what is known of an answer that will not go on."""
        if self._over:
            return
        self._over = True
        if self._meter is not None:
            self._meter.end()
        if self.kept is not None and (hidden := self._own.end()):
            self.kept.data(hidden)

    def _step(self, out: list[bytes]) -> bool:
        """Take the upstream's next event; whether there may be another."""
        event = self._upstream.next_event()
        match event:
            case h11.InformationalResponse():
                return True
            case h11.Response():
                self._head(event, out)
                return not self.broken
            case h11.Data(data=data):
                self._read(bytes(data))
                self._body(self._redactor.feed(bytes(data)), out)
                return True
            case h11.EndOfMessage():
                self._body(self._redactor.end(), out)
                if self._chunked and not self.client_left:
                    out.append(_LAST_CHUNK)
                self.stop()
                self.complete = True
                return False
            case h11.ConnectionClosed():
                self.broken = True
                return False
            case _:
                return False

    def _head(self, response: h11.Response, out: list[bytes]) -> None:
        encoding = b",".join(value for name, value in response.headers if name == b"content-encoding")
        if self._redactor.active and _is_compressed(encoding):
            self.broken, self.problem = True, _COMPRESSED
            return
        self.status = response.status_code
        self._inflater = inflater(encoding.decode("latin-1"), _MOST_METERED_BYTES)
        mask = self._redactor.whole
        headers = [(mask(name), mask(value)) for name, value in for_client(response)]
        if self.kept is not None:
            hide = self._own.whole
            self.kept.head(response.status_code, [(hide(name), hide(value)) for name, value in headers])
            if self._own.active and _is_compressed(encoding):
                # Asked not to be: what is in it cannot be masked, so it is not kept.
                self.kept = None
        headers.append((b"Connection", b"close"))
        head = h11.Response(status_code=response.status_code, headers=headers, reason=mask(response.reason))
        if not self.client_left:
            out.append(self._client.send(head) or b"")
        self._chunked = self._chunks(head)

    def _body(self, data: bytes, out: list[bytes]) -> None:
        if data and not self.client_left:
            # As h11 would write it, at a tenth of the cost: an answer has many pieces and one head.
            out.append(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
        if self.kept is not None and (hidden := self._own.feed(data)):
            self.kept.data(hidden)

    def _read(self, data: bytes) -> None:
        """Meter a copy."""
        if self._meter is None or self._inflater is None:
            return
        try:
            self._meter.feed(self._inflater.feed(data))
        except (Overflow, ValueError):
            self._inflater = None

    def _chunks(self, head: h11.Response) -> bool:
        """Whether the body behind a head goes to the client in chunks (RFC 9112 section 6.3)."""
        if self._method == b"HEAD" or head.status_code in _NO_BODY:
            return False
        sized = any(name == b"content-length" for name, _ in head.headers)
        return not sized and (self._client.their_http_version or b"") >= b"1.1"


def _is_compressed(encoding: bytes) -> bool:
    return encoding.strip().lower() not in (b"", b"identity")
