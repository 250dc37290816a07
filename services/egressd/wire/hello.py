"""The first message of TLS, read before anything is dialled (RFC 8446, 4.1.2; RFC 5246, 7.4.1.2; RFC 6066). No I/O.

Its laws:

- Bytes may come in any pieces, and the message may be divided over any number of records: the outcome is the same.
- No prefix of a hello is one, and a prefix of what is refused is refused or wants more.
- What a server might read otherwise than it is read here is refused: a field twice, bytes behind one, a second name.
- Time and memory are linear in what came, and that is bounded.

A server may ask for a second hello (HelloRetryRequest), and may believe the name in that one: it is read as well.
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

LONGEST_BYTES: Final = 64 << 10
"""The longest hello, with the heads of its records and what is skipped before a second one."""
_LONGEST_RECORD_BYTES: Final = 16 << 10
_LONGEST_SEALED_BYTES: Final = _LONGEST_RECORD_BYTES + 256
_HEAD_BYTES: Final = 5
_CHANGE_CIPHER_SPEC: Final = 20
_HANDSHAKE: Final = 22
_APPLICATION_DATA: Final = 23
_CLIENT_HELLO: Final = 1
_SERVER_HELLO: Final = 2
_MAJOR: Final = 3
"""Every version of SSL 3.0 and TLS, in the heads of records and in the hello itself, begins with it."""
_RANDOM_BYTES: Final = 32
_HOST_NAME: Final = 0
_SERVER_NAME: Final = 0
_ALPN: Final = 16
_HIDING: Final = frozenset({0xFE0D, 0xFFCE, *range(0xFE08, 0xFE0D)})
"""encrypted_client_hello (RFC 9849) and its drafts. A GREASE one is meant to look the same, and does."""
_ASKS_AGAIN: Final = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The `random` of a ServerHello that is a HelloRetryRequest (RFC 8446 section 4.1.3)."""

Reason = Literal["not-tls", "too-long", "damaged", "late", "no-name", "other-name", "ech"]


class _Row(NamedTuple):
    sentence: str
    alert: int | None


_REASONS: Final[dict[Reason, _Row]] = {
    "not-tls": _Row("refused: what came through the tunnel is not TLS", None),
    "too-long": _Row(f"refused: the TLS hello is longer than {LONGEST_BYTES} bytes", 50),
    "damaged": _Row("refused: the TLS hello is not well-formed", 50),
    "late": _Row("refused: the TLS hello did not arrive whole in time", None),
    "no-name": _Row("refused: the TLS hello names no host", 112),
    "other-name": _Row("refused: the TLS hello names another host than the tunnel's", 112),
    "ech": _Row("refused: the TLS hello hides its host's name (Encrypted Client Hello, or its GREASE)", 49),
}
"""By reason: the sentence, and the alert that tells a client of it: decode_error, unrecognized_name, access_denied."""


class Refused(Exception):
    """A hello that goes nowhere; the sentence quotes nothing of it."""

    def __init__(self, reason: Reason) -> None:
        self.reason: Reason = reason
        self.sentence, self.alert = _REASONS[reason]
        super().__init__(self.sentence)


class Hello(NamedTuple):
    """What a ClientHello says: the name in lower case, whether another is hidden in it, and the protocols it offers."""

    name: str | None
    ech: bool
    alpn: tuple[bytes, ...]


def check(hello: Hello, host: str) -> None:
    """Let pass only a hello that names a host (ASCII, lower case, without a final dot) and no other.

    Raises:
        Refused: `ech`, `no-name`, `other-name`.

    """
    if hello.ech:
        raise Refused("ech")
    if hello.name is None:
        raise Refused("no-name")
    if hello.name != host:
        raise Refused("other-name")


def alert(description: int) -> bytes:
    """A fatal alert as a record (RFC 8446 section 6)."""
    return bytes((21, _MAJOR, 3, 0, 2, 2, description))


class HelloReader:
    """Reads one ClientHello; before a second one (`again`) there may be records of other kinds, to pass over."""

    def __init__(self, *, again: bool = False) -> None:
        self._records = _Records({_HANDSHAKE, _CHANGE_CIPHER_SPEC, _APPLICATION_DATA} if again else {_HANDSHAKE})
        self._message = bytearray()

    @property
    def taken_bytes(self) -> int:
        """How many of the bytes that were fed belong to the hello, or stand before it; the rest is behind it."""
        return self._records.taken_bytes

    def feed(self, data: bytes) -> Hello | None:
        """Take the next bytes; the hello when it is whole, None while it is not. To be called until there is one.

        Raises:
            Refused: `not-tls`, `too-long`, `damaged`.

        """
        for kind, piece, ends in self._records.split(data):
            if kind != _HANDSHAKE:
                if self._message:
                    raise Refused("damaged")
                continue
            self._message += piece
            missing_bytes = _missing(self._message, _CLIENT_HELLO)
            # A record that holds more than the hello would be read on by the server, and was not here.
            if missing_bytes < 0 or (missing_bytes == 0 and not ends):
                raise Refused("damaged")
            if missing_bytes == 0:
                return _hello(bytes(self._message[4:]))
        return None


class AnswerReader:
    """Reads of a server's first message whether it asks for a second hello."""

    def __init__(self) -> None:
        self._records = _Records({_HANDSHAKE})
        self._message = bytearray()

    def feed(self, data: bytes) -> bool | None:
        """Take the next bytes; whether a second hello is asked for, None while that is not known."""
        end = 4 + 2 + _RANDOM_BYTES
        try:
            for _, piece, _ in self._records.split(data):
                self._message += piece
                if self._message[:1] != bytes((_SERVER_HELLO,)):
                    return False
                if len(self._message) >= end:
                    return self._message[end - _RANDOM_BYTES : end] == _ASKS_AGAIN
        except Refused:
            # An alert, or no TLS at all: the client's business.
            return False
        return None


class _Records:
    """Takes a stream apart into records, of some kinds only."""

    def __init__(self, kinds: set[int]) -> None:
        self._kinds = kinds
        self._head = bytearray()
        self._left_bytes = 0
        self.taken_bytes = 0

    def split(self, data: bytes) -> Iterator[tuple[int, bytes, bool]]:
        """The pieces of records in the next bytes: the record's kind, the piece, whether the record ends with it.

        Raises:
            Refused: `not-tls`, `too-long`, `damaged`.

        """
        at = 0
        while at < len(data):
            size_bytes = self._left_bytes or _HEAD_BYTES - len(self._head)
            piece = data[at : at + size_bytes]
            at += len(piece)
            self.taken_bytes += len(piece)
            if self.taken_bytes > LONGEST_BYTES:
                raise Refused("too-long")
            if self._left_bytes:
                self._left_bytes -= len(piece)
                yield self._head[0], piece, not self._left_bytes
                if not self._left_bytes:
                    self._head.clear()
            else:
                self._head += piece
                self._left_bytes = self._length()

    def _length(self) -> int:
        """The length of the record whose head is here, or 0 while it is not whole."""
        head = self._head
        if head[0] not in self._kinds or (len(head) > 1 and head[1] != _MAJOR):
            raise Refused("not-tls")
        if len(head) < _HEAD_BYTES:
            return 0
        length_bytes = int.from_bytes(head[3:])
        longest_bytes = _LONGEST_SEALED_BYTES if head[0] == _APPLICATION_DATA else _LONGEST_RECORD_BYTES
        if not 0 < length_bytes <= longest_bytes:
            raise Refused("damaged")
        return length_bytes


def _missing(message: bytearray, kind: int) -> int:
    """How many bytes a message still wants, at least; below 0 when there are too many."""
    if message[0] != kind:
        raise Refused("not-tls")
    if len(message) < 4:
        return 1
    length_bytes = int.from_bytes(message[1:4])
    if length_bytes > LONGEST_BYTES:
        raise Refused("too-long")
    return 4 + length_bytes - len(message)


class _Fields:
    """Takes a structure of TLS apart, from its beginning to its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, size_bytes: int) -> bytes:
        """The next bytes."""
        found = self._data[self._at : self._at + size_bytes]
        if len(found) < size_bytes:
            raise Refused("damaged")
        self._at += size_bytes
        return found

    def number(self, size_bytes: int) -> int:
        """The next number."""
        return int.from_bytes(self.take(size_bytes))

    def vector(self, width_bytes: int, least_bytes: int = 0) -> bytes:
        """The next vector: its length in some bytes, then so many bytes."""
        length_bytes = self.number(width_bytes)
        if length_bytes < least_bytes:
            raise Refused("damaged")
        return self.take(length_bytes)

    def vectors(self, width_bytes: int) -> Iterator[bytes]:
        """All that is left, as vectors that are not empty."""
        while self:
            yield self.vector(width_bytes, 1)


def _hello(body: bytes) -> Hello:
    fields = _Fields(body)
    version, _ = fields.take(2), fields.take(_RANDOM_BYTES)
    sessions, ciphers, compressions = fields.vector(1), fields.vector(2, 2), fields.vector(1, 1)
    if version[0] != _MAJOR or len(sessions) > 32 or len(ciphers) % 2 or 0 not in compressions:
        raise Refused("damaged")
    extensions = dict(_extensions(fields.vector(2))) if fields else {}
    if fields:
        raise Refused("damaged")
    name = extensions.get(_SERVER_NAME)
    alpn = extensions.get(_ALPN)
    return Hello(
        name=None if name is None else _name(name),
        ech=not _HIDING.isdisjoint(extensions),
        alpn=() if alpn is None else tuple(_Fields(_only(alpn)).vectors(1)),
    )


def _extensions(data: bytes) -> Iterator[tuple[int, bytes]]:
    fields, seen = _Fields(data), set[int]()
    while fields:
        kind = fields.number(2)
        if kind in seen:
            raise Refused("damaged")
        seen.add(kind)
        yield kind, fields.vector(2)


def _name(extension: bytes) -> str:
    """The one name of a server_name extension (RFC 6066 section 3)."""
    fields = _Fields(_only(extension))
    kind, name = fields.number(1), fields.vector(2, 1)
    if kind != _HOST_NAME or fields or not name.isascii():
        raise Refused("damaged")
    return name.decode("ascii").lower()


def _only(extension: bytes) -> bytes:
    """The one vector that an extension consists of."""
    fields = _Fields(extension)
    found = fields.vector(2, 1)
    if fields:
        raise Refused("damaged")
    return found
