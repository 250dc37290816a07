"""HTTP without I/O: what is read here h11 reads the same, and what cannot be read in one way alone is not read."""

import gc
import itertools
import weakref
from collections.abc import Callable

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.wire.http import (
    Incoming,
    Malformed,
    Outgoing,
    Request,
    Response,
    TooLarge,
    request_head,
    response_head,
)

_MOST = 8 << 10
_TOKEN = st.text("ABCXYZabcxyz0123456789-_.", min_size=1, max_size=12).map(lambda name: f"x-{name}".encode())
_VALUE = st.binary(max_size=20).map(
    lambda value: bytes(byte for byte in value if byte >= 0x20 and byte != 0x7F).strip()
)
_HEADERS = st.lists(st.tuples(_TOKEN, _VALUE), max_size=5)
_CUTS = st.lists(st.integers(0, 5_000), max_size=8)
_FRAGMENTS = st.lists(
    st.sampled_from([
        b"\r\n", b"\n", b"\r", b"\x00", b" ", b"\t", b":", b"\r\n\r\n", b"Content-Length: 3\r\n", b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\t\r\n", b"Transfer-Encoding: chunked \r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Host: y\r\n", b"X-A: b\r\n c\r\n",
        b"Connection: Upgrade\r\n", b"Upgrade: h2c\r\n", b"abc", b"3\r\nabc\r\n", b"0\r\n\r\n", b"3;e=1\r\nabc\r\n0\r\nX-T: 1\r\n\r\n",
        b"3\nabc\n0\n\n", b"+3\r\nabc\r\n", b"Content-Length: +3\r\n", b"Content-Length : 3\r\n", b"Expect: 100-continue\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"HTTP/1.1 199 X\r\n", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 103 X\r\nConnection: close\r\n\r\n",
    ]),
    max_size=8,
)  # fmt: skip


def _cut(data: bytes, places: list[int]) -> list[bytes]:
    at = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(at) if a != b]


def _chunked(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\nX-T: 1\r\n\r\n"


def _read(message: Incoming | Outgoing, data: bytes, places: list[int]) -> bytes:
    """The body of a message that came in pieces."""
    body = b""
    for piece in _cut(data, places):
        message.feed(piece)
        body += b"".join(message.take())
    return body


def _h11(role: type[h11.CLIENT] | type[h11.SERVER], data: bytes, *, ends: bool) -> tuple[h11.Event, bytes]:
    """The head and the body of a whole message as h11 reads it; raises where it does not."""
    http = h11.Connection(role, max_incomplete_event_size=1 << 20)
    if role is h11.CLIENT:
        http.send(h11.Request(method="POST", target="/", headers=[("Host", "x")]))
        http.send(h11.EndOfMessage())
    http.receive_data(data)
    if ends:
        http.receive_data(b"")
    head, body = None, b""
    while not isinstance(event := http.next_event(), h11.EndOfMessage):
        assert isinstance(event, h11.Request | h11.Response | h11.InformationalResponse | h11.Data), event
        if isinstance(event, h11.Data):
            body += event.data
        elif not isinstance(event, h11.InformationalResponse):
            head = event
    assert head is not None
    return head, body


@given(_HEADERS, st.lists(st.binary(max_size=50), max_size=4), st.booleans(), _CUTS)
def test_a_request_is_what_was_sent(
    headers: list[tuple[bytes, bytes]], pieces: list[bytes], chunked: bool, places: list[int]
) -> None:
    body = b"".join(pieces)
    framing = (b"Transfer-Encoding", b"chunked") if chunked else (b"Content-Length", b"%d" % len(body))
    head = Request(b"POST", b"/v1/x?y=z", [(b"Host", b"x"), *headers, framing])
    incoming = Incoming(_MOST)
    assert _read(incoming, request_head(head) + (_chunked(pieces) if chunked else body), places) == body
    assert (incoming.head, incoming.whole, incoming.behind) == (head, True, b"")


@given(_HEADERS, st.lists(st.binary(max_size=50), max_size=4), st.sampled_from(["length", "chunked", "end"]), _CUTS)
def test_an_answer_is_what_was_sent(
    headers: list[tuple[bytes, bytes]], pieces: list[bytes], framing: str, places: list[int]
) -> None:
    body = b"".join(pieces)
    lengths = {"length": [(b"Content-Length", b"%d" % len(body))], "chunked": [(b"Transfer-Encoding", b"chunked")]}
    head = Response(200, [*headers, *lengths.get(framing, [])], b"All right")
    early = response_head(Response(103, [(b"Link", b"x")], b"Early Hints"))
    outgoing = Outgoing(b"POST", _MOST)
    data = early + response_head(head) + (_chunked(pieces) if framing == "chunked" else body)
    assert _read(outgoing, data, places) == body
    if framing == "end":
        assert not outgoing.whole
        outgoing.feed(b"")
    assert (outgoing.head, outgoing.whole) == (head, True)
    assert outgoing.reusable == (framing != "end")


@given(_FRAGMENTS, _CUTS)
def test_a_request_that_is_read_here_h11_reads_the_same(fragments: list[bytes], places: list[int]) -> None:
    data = b"POST /v1/x HTTP/1.1\r\nHost: x\r\n" + b"".join(fragments)
    _compared(Incoming(_MOST), h11.SERVER, data, places, ends=False)


@given(_FRAGMENTS, _CUTS, st.booleans())
def test_an_answer_that_is_read_here_h11_reads_the_same(fragments: list[bytes], places: list[int], ends: bool) -> None:
    _compared(Outgoing(b"POST", _MOST), h11.CLIENT, b"HTTP/1.1 200 OK\r\n" + b"".join(fragments), places, ends=ends)


def _compared(
    message: Incoming | Outgoing,
    role: type[h11.CLIENT] | type[h11.SERVER],
    data: bytes,
    places: list[int],
    *,
    ends: bool,
) -> None:
    """Read a message; where it is one, h11 must have read the same."""
    try:
        body = _read(message, data, places)
        if ends:
            message.feed(b"")
    except Malformed:
        return
    if message.whole and message.head is not None:
        head, told = _h11(role, data, ends=ends)
        assert isinstance(head, h11.Request | h11.Response)
        assert (body, message.head.headers) == (told, list(head.headers.raw_items()))


@given(st.binary(max_size=200), _CUTS)
def test_no_bytes_do_more_than_not_to_be_read(data: bytes, places: list[int]) -> None:
    for message in (Incoming(_MOST), Outgoing(b"GET", _MOST)):
        try:
            _read(message, data, places)
            message.feed(b"")
        except Malformed:
            assert not message.whole


@pytest.mark.parametrize(
    "head",
    [b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
     b"GET /\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", b"NONE / HTTP/1.1\r\nHost: a\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
     b"GET / HTTP/1.1\nHost: a\n\n", b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n",
     b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
     b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
     b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_request_is_malformed(head: bytes) -> None:
    incoming = Incoming(_MOST)
    with pytest.raises(Malformed):
        incoming.feed(head)
    assert not incoming.whole


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n", b"HTTP/2.0 200 X\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 200 \x02\r\n\r\n",
     b"HTTP/1.1 200 X\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", b"HTTP/1.1 200 X\r\nTransfer-Encoding: gzip\r\n\r\n",
     b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", b"HTTP/1.1 101 X\r\n\r\n",
     b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\t\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_answer_is_malformed(head: bytes) -> None:
    with pytest.raises(Malformed):
        Outgoing(b"POST", _MOST).feed(head)


_ENDLESS: list[tuple[Callable[[], Incoming | Outgoing], bytes, bytes]] = [
    (lambda: Incoming(_MOST), b"GET / HTTP/1.1\r\nHost: x\r\n", b"X-A: b\r\n"),
    (lambda: Incoming(_MOST), b"GET /", b"aaaaaaaaaaaa"),
    (lambda: Incoming(_MOST), b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"aaaaaaaaaaaa"),
    (lambda: Incoming(_MOST), b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-T: b\r\n"),
    (lambda: Outgoing(b"GET", _MOST), b"HTTP/1.1 200 ", b"aaaaaaaaaaaa"),
    (lambda: Outgoing(b"GET", _MOST), b"", b"HTTP/1.1 103 X\r\n\r\n"),
]


@pytest.mark.parametrize(("made", "begin", "more"), _ENDLESS)
def test_what_is_not_the_body_is_bounded(made: Callable[[], Incoming | Outgoing], begin: bytes, more: bytes) -> None:
    message = made()
    message.feed(begin) if begin else None
    with pytest.raises(TooLarge):
        for _ in range(_MOST // len(more) + 2):
            message.feed(more)


def test_a_body_of_many_chunks_is_not_bounded_by_what_stands_between_them() -> None:
    incoming = Incoming(_MOST)
    incoming.feed(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(_MOST):
        incoming.feed(b"1\r\na\r\n")
    incoming.feed(b"0\r\n\r\n")
    assert (incoming.whole, incoming.chunks, len(incoming.take())) == (True, _MOST + 1, _MOST)


@given(_CUTS)
def test_a_protocol_that_is_offered_and_not_taken_changes_nothing(places: list[int]) -> None:
    # As Java's HttpClient asks over plain HTTP.
    head = (
        b"POST /v1/x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAE\r\n"
        b"Content-Length: 3\r\n\r\n"
    )
    incoming = Incoming(_MOST)
    assert _read(incoming, head + b"abc", places) == b"abc"
    assert incoming.whole
    assert incoming.head is not None
    assert (b"Upgrade", b"h2c") in incoming.head.headers


@pytest.mark.parametrize(
    "head",
    [b"CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\n"],
)  # fmt: skip
def test_what_comes_behind_a_request_to_speak_something_else_is_kept(head: bytes) -> None:
    incoming = Incoming(_MOST)
    incoming.feed(head + b"\x16\x03\x01")
    assert (incoming.whole, incoming.behind, incoming.take()) == (True, b"\x16\x03\x01", [])


def test_what_comes_behind_an_agreed_change_is_kept() -> None:
    outgoing = Outgoing(b"GET", _MOST, switches=True)
    outgoing.feed(b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00")
    assert (outgoing.whole, outgoing.behind, outgoing.reusable) == (True, b"\x81\x00", False)


@pytest.mark.parametrize("behind", [b"", b"WORLD"])
@pytest.mark.parametrize(
    "second",
    [b"GET /2 HTTP/1.1\r\nHost: x\r\n\r\n", b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
     b"GET /2 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
     b"GET /2 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" * 2_000],
)  # fmt: skip
@pytest.mark.parametrize("offer", [b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"])
def test_what_stands_behind_a_request_changes_nothing_of_it(offer: bytes, second: bytes, behind: bytes) -> None:
    incoming = Incoming(_MOST)
    incoming.feed(b"POST /1 HTTP/1.1\r\nHost: x\r\n" + offer + b"Content-Length: 5\r\n\r\nhello" + second + behind)
    assert (b"".join(incoming.take()), incoming.whole, incoming.behind) == (b"hello", True, b"")
    assert incoming.head is not None
    assert incoming.head.target == b"/1"


def test_an_offer_that_is_not_taken_makes_no_head_longer() -> None:
    incoming = Incoming(_MOST)
    offer = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
    incoming.feed(
        b"POST / HTTP/1.1\r\nHost: x\r\n" + offer + b"X-A: " + b"a" * (_MOST - 200) + b"\r\nContent-Length: 5\r\n\r\n"
    )
    incoming.feed(b"hello")
    assert (b"".join(incoming.take()), incoming.whole) == (b"hello", True)


_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.mark.parametrize(
    "interim",
    [b"HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\n", b"HTTP/1.0 100 Continue\r\n\r\n",
     b"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 100 Continue\r\nContent-Length: 9\r\n\r\n"],
)  # fmt: skip
@given(places=_CUTS)
def test_an_interim_answer_says_nothing_of_the_one_that_follows(interim: bytes, places: list[int]) -> None:
    outgoing = Outgoing(b"POST", _MOST)
    assert _read(outgoing, interim + _ANSWER, places) == b"ok"
    assert outgoing.reusable


@pytest.mark.parametrize(
    "interim",
    [b"HTTP/1.1 199 X\r\nContent-Length: 5\r\n\r\nAAAAA", b"HTTP/1.1 199 X\r\nContent-Length: 5\r\n\r\n",
     b"HTTP/1.1 104 X\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nAAAAA\r\n0\r\n\r\n"],
)  # fmt: skip
@given(places=_CUTS)
def test_an_interim_answer_has_no_body(interim: bytes, places: list[int]) -> None:
    outgoing = Outgoing(b"POST", _MOST)
    with pytest.raises(Malformed):
        _read(outgoing, interim + _ANSWER, places)
    assert (outgoing.head, outgoing.take()) == (None, [])


@pytest.mark.parametrize(
    ("method", "head", "more", "reusable"),
    [
        (b"POST", b"Content-Length: 0\r\n", b"", True),
        (b"POST", b"Content-Length: 0\r\n", b"HTTP/1.1 200 X\r\n", False),
        (b"POST", b"Content-Length: 0\r\n", b"nonsense", False),
        (b"POST", b"Content-Length: 0\r\nConnection: close\r\n", b"", False),
        (b"HEAD", b"Content-Length: 5\r\n", b"", False),
    ],
)
def test_a_connection_is_used_again_only_where_both_say_so(
    method: bytes, head: bytes, more: bytes, reusable: bool
) -> None:
    data = b"HTTP/1.1 200 X\r\n" + head + b"\r\n"
    at_once, later = Outgoing(method, _MOST), Outgoing(method, _MOST)
    at_once.feed(data + more)
    later.feed(data)
    if more:
        later.feed(more)
    assert (at_once.whole, at_once.reusable) == (later.whole, later.reusable) == (True, reusable)


@given(_HEADERS, st.sampled_from([b"\n", b"\r", b"\r\n", b"\0", b"\r\nX:y"]), st.integers(0, 4))
def test_no_part_of_a_head_begins_another_line(headers: list[tuple[bytes, bytes]], bad: bytes, where: int) -> None:
    with pytest.raises(ValueError, match="a line of a head"):
        response_head(Response(200, headers, b"OK" + bad))
    with pytest.raises(ValueError, match="a line of a head"):
        request_head(Request(b"GET", b"/" + bad, headers))
    for pair in ((b"x-a" + bad, b"v"), (b"x-a", b"v" + bad + b"w")):
        with pytest.raises(ValueError, match="a line of a head"):
            request_head(Request(b"GET", b"/", [*headers[:where], pair, *headers[where:]]))


def test_a_target_is_one_word() -> None:
    with pytest.raises(ValueError, match="space"):
        request_head(Request(b"GET", b"/a b", []))


def test_a_message_that_is_over_is_let_go() -> None:
    incoming = Incoming(_MOST)
    incoming.feed(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    gone = weakref.ref(incoming)
    del incoming
    gc.collect()
    assert gone() is None
