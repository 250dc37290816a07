"""HTTP/1.1 of one exchange (RFC 9112), without I/O: what came, as llhttp reads it, and the heads that leave.

A request or an answer is read as its bytes come, however they are cut. Laws (tested, with h11 for the oracle):

1. What is taken for HTTP here another reader takes for the same, or not at all: a message with two lengths, a bare line
   feed, a folded header or a byte of control is none. (llhttp also reads what calls itself RTSP or ICE.)
2. A head that leaves has the lines that were given, and no more.
3. What is held is bounded: the head, trailers, and whatever else is not the body.
"""

import re
from abc import ABC, abstractmethod
from typing import Final, NamedTuple

import httptools

Headers = list[tuple[bytes, bytes]]
"""Names, as they came, and values."""

CLOSE: Final = (b"Connection", b"close")
_BLANKS: Final = b" \t"
_TEXT: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_VERSIONS: Final = ("1.0", "1.1")
_NO_BODY: Final = (204, 304)
_STATUS: Final = range(200, 1_000)
SWITCHED: Final = 101
_LONGEST_HEAD_BYTES: Final = 64 << 10
_CONNECT: Final = b"CONNECT"


class Malformed(Exception):
    """What came is no HTTP/1.1, or has broken off."""


class TooLarge(Malformed):
    """What is not the body is larger than it may be."""


class Request(NamedTuple):
    """The head of a request."""

    method: bytes
    target: bytes
    headers: Headers


class Response(NamedTuple):
    """The head of an answer."""

    status: int
    headers: Headers
    reason: bytes = b""


class _Reading(ABC):
    """A message as it comes: llhttp calls `on_…` for what it finds, and nothing counts that is behind the end."""

    _parser: httptools.HttpRequestParser | httptools.HttpResponseParser

    def __init__(self, most_bytes: int) -> None:
        self.whole = False
        """Whether the message has come to its end."""
        self.begun = False
        self.chunks = 0
        """How many chunks the body has so far."""
        self.behind = b""
        """What came behind a message after which another protocol is spoken."""
        self._most_bytes = most_bytes
        self._spent_bytes = 0
        self._headers: Headers = []
        self._encodings: list[bytes] = []
        self._pieces: list[bytes] = []
        self._first = b""
        self._has_head = False
        self._is_followed = False

    def feed(self, data: bytes) -> None:
        """Take bytes that came.

        Raises:
            Malformed: they are no HTTP/1.1; what came before them is read.
            TooLarge: there is more than may be held beside the body.

        """
        if self.whole:
            self._is_followed = True
            return
        self.begun = True
        self._spent_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as switched:
            self._switched(data[switched.args[0] :])
        except httptools.HttpParserError as error:
            if not self.whole:
                raise Malformed(str(error)) from None
            self._is_followed = True
        if self._spent_bytes > self._most_bytes and not self.whole:
            raise TooLarge

    def take(self) -> list[bytes]:
        """The pieces of the body that have come since the last time."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def on_message_begin(self) -> None:
        self._is_followed = self.whole

    def on_url(self, piece: bytes) -> None:
        # Of the first line: a request's target, or an answer's reason.
        if not self._has_head:
            self._first += piece

    on_status = on_url

    def on_headers_complete(self) -> None:
        if not self._has_head:
            # With a tab behind it, `chunked` is none to llhttp.
            named = [value for name, value in self._headers if name.lower() == b"transfer-encoding"]
            self._encodings = [value.rstrip(b" ").lower() for value in named]
            self._headers = [(name, value.rstrip(_BLANKS)) for name, value in self._headers]
            self._take_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Behind the head there are trailers.
        if not self._has_head:
            self._headers.append((name, value))

    def on_chunk_header(self) -> None:
        self._need_head()
        if not self.whole:
            self.chunks += 1

    def on_body(self, piece: bytes) -> None:
        self._need_head()
        if not self.whole:
            self._pieces.append(piece)
            self._spent_bytes = 0

    def on_message_complete(self) -> None:
        self.whole = self._has_head

    def _need_head(self) -> None:
        if not self._has_head:
            # An interim answer has no body; to llhttp some have.
            raise Malformed

    @abstractmethod
    def _take_head(self) -> None:
        """Look at a head that is whole.

        Raises:
            Malformed: it is none.

        """

    def _switched(self, behind: bytes) -> None:
        self.behind, self._is_followed = behind, True

    def _is_chunked(self) -> bool:
        """Whether the body comes in chunks.

        Raises:
            Malformed: it is encoded in another way, or in one more.

        """
        if self._encodings not in ([], [b"chunked"]):
            raise Malformed
        return bool(self._encodings)

    def _named(self, name: bytes) -> list[bytes]:
        """The values of a header, in small letters."""
        return [value.lower() for found, value in self._headers if found.lower() == name]


class Incoming(_Reading):
    """The one request of a client's connection, and whether it has had the head of its answer."""

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes` bounds the head, and what else there is that is not the body."""
        super().__init__(most_bytes)
        self._parser: httptools.HttpRequestParser = httptools.HttpRequestParser(self)
        self.head: Request | None = None
        self.is_1_0 = False
        self.answered = False

    @property
    def waits(self) -> bool:
        """Whether the client sends its body only when told to go on (RFC 9110 section 10.1.1)."""
        asks = not self.is_1_0 and b"100-continue" in self._named(b"expect")
        return asks and not self.chunks and not self._pieces and not self.whole

    def feed(self, data: bytes) -> None:
        """As every message's; none is the end of what the client says, which an unfinished request does not survive."""
        if not data and not self.whole:
            raise Malformed("the request breaks off")
        super().feed(data)

    def answer(self, head: Response) -> tuple[bytes, bool]:
        """The bytes of the head of the answer, and whether its body goes in chunks (RFC 9112 section 6.3)."""
        self.answered = True
        if self.is_1_0 or head.status in _NO_BODY or any(name.lower() == b"content-length" for name, _ in head.headers):
            return response_head(head), False
        chunked = head._replace(headers=[*head.headers, (b"Transfer-Encoding", b"chunked")])
        return response_head(chunked), not self._is_head

    def answer_whole(self, head: Response, body: bytes) -> bytes:
        """The bytes of an answer whose body is here already; the connection ends behind it."""
        headers = [*head.headers, (b"Content-Length", b"%d" % len(body)), CLOSE]
        start, _ = self.answer(head._replace(headers=headers))
        return start if self._is_head else start + body

    def answer_switching(self, head: Response) -> bytes:
        """The bytes of a head after which another protocol is spoken."""
        self.answered = True
        return response_head(head)

    def _take_head(self) -> None:
        version = self._parser.get_http_version()
        hosts = len(self._named(b"host"))
        if version not in _VERSIONS or hosts > 1 or not (hosts or version == "1.0"):
            raise Malformed
        self._is_chunked()
        self._has_head = True
        self.is_1_0 = version == "1.0"
        self.head = Request(self._parser.get_method(), self._first, self._headers)

    def _switched(self, behind: bytes) -> None:
        if self._is_followed:
            # It is a second request that offers it.
            return
        head = self.head
        if head is None:
            raise Malformed
        if head.method != _CONNECT and self._named(b"upgrade") != [b"websocket"]:
            # Another protocol is offered and not taken (RFC 9110 section 7.8): what follows is the body, as without it.
            self.whole, self._spent_bytes = False, 0
            again = head._replace(headers=[pair for pair in head.headers if pair[0].lower() != b"upgrade"])
            self._parser = httptools.HttpRequestParser(self)
            self.feed(request_head(again) + behind)
        else:
            super()._switched(behind)

    @property
    def _is_head(self) -> bool:
        return self.head is not None and self.head.method == b"HEAD"


class Outgoing(_Reading):
    """The answer to one request, with the interim ones before it left out; `switches` lets it change the protocol."""

    def __init__(self, method: bytes, most_bytes: int = _LONGEST_HEAD_BYTES, *, switches: bool = False) -> None:
        """`method` is the request's; `most_bytes` as for `Incoming`."""
        super().__init__(most_bytes)
        self._parser: httptools.HttpResponseParser = httptools.HttpResponseParser(self)
        # What an interim answer says of the connection is not meant: what follows it is read, and looked at here.
        self._parser.set_dangerous_leniencies(lenient_keep_alive=True)
        self._method = method
        self._switches = switches
        self._until_end = False
        self._keeps = False
        self.head: Response | None = None

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another exchange: this one has ended, and both sides say so."""
        return self._keeps and not self._is_followed

    def feed(self, data: bytes) -> None:
        """As every message's; none is the end of the connection, and of a body that has no other."""
        if data:
            super().feed(data)
        elif self._until_end:
            self.whole = True
        elif not self.whole:
            raise Malformed("the answer breaks off")
        else:
            self._is_followed = True

    def on_message_begin(self) -> None:
        """A message begins: the answer, an interim one before it, or what follows it."""
        super().on_message_begin()
        if not self._has_head:
            self._first, self._headers = b"", []

    def _take_head(self) -> None:
        # The answer's, or an interim one.
        status = self._parser.get_status_code()
        if self._parser.get_http_version() not in _VERSIONS or not _TEXT.fullmatch(self._first):
            raise Malformed
        switched = status == SWITCHED and self._switches
        if status in _STATUS or switched:
            chunked = self._is_chunked()
            self._has_head = True
            self.head = Response(status, self._headers, self._first)
            bare = status in _NO_BODY or switched or self._method == b"HEAD"
            self.whole = self._method == b"HEAD"
            self._until_end = not bare and not chunked and not self._named(b"content-length")
        elif status >= _STATUS.start or status < 100 or status == SWITCHED:
            raise Malformed

    def on_message_complete(self) -> None:
        """A message is whole: llhttp forgets now what it said of its connection."""
        if not self.whole:
            super().on_message_complete()
            self._keeps = self.whole and self._parser.should_keep_alive()


def request_head(head: Request) -> bytes:
    """The bytes of a head.

    Raises:
        ValueError: something in it would begin another line.

    """
    if b" " in head.target:
        raise ValueError("a target has a space in it")
    return _head(b"%b %b HTTP/1.1\r\n" % (head.method, head.target), head.headers)


def response_head(head: Response) -> bytes:
    """The bytes of a head. Raises as `request_head`."""
    return _head(b"HTTP/1.1 %d %b\r\n" % (head.status, head.reason), head.headers)


def _head(first: bytes, headers: Headers) -> bytes:
    data = b"".join([first, *[b"%b: %b\r\n" % pair for pair in headers], b"\r\n"])
    lines = len(headers) + 2
    if (data.count(b"\n"), data.count(b"\r"), data.count(b"\0")) != (lines, lines, 0):
        raise ValueError("a line of a head has a break in it")
    return data
