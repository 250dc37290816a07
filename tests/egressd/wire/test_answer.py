"""The way back without I/O: what goes in comes out, however it is cut, and is counted once."""

import gzip
import itertools
import json

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.meter.openai_chat import OpenAiChat
from egressd.meter.usage import Usage
from egressd.wire.answer import Answer
from egressd.wire.redact import Redactor
from tests.egressd import http
from tests.fakes.upstream import USAGE

COUNTED = Usage(input_tokens=11, output_tokens=7, cache_read_tokens=5)
cuts = st.lists(st.integers(0, 100_000), max_size=12)


def _asked(method: str = "POST", version: str = "1.1") -> h11.Connection:
    """The side of a client whose request has been read, as h11 has it."""
    client = h11.Connection(h11.SERVER)
    client.receive_data(http.empty(method, version))
    while client.next_event() is not h11.PAUSED and client.their_state not in (h11.DONE, h11.MUST_CLOSE):
        pass
    return client


def _opened(key: str | None = None, method: str = "POST", version: str = "1.1") -> Answer:
    """A call whose request has been read from the client and sent to the upstream."""
    return http.relayed(OpenAiChat(), Redactor(*([key.encode()] if key else [])), method, version)


def _cut(data: bytes, places: list[int]) -> list[bytes]:
    at = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(at) if a != b]


def _framed(body: bytes, framing: str, pieces: list[int], status: int = 200) -> bytes:
    head = b"HTTP/1.1 %d OK\r\nContent-Type: text/event-stream\r\n" % status
    if framing == "length":
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    if framing == "close":
        return head + b"\r\n" + body
    chunks = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(piece), piece) for piece in _cut(body, pieces))
    return (
        b"HTTP/1.1 103 Early Hints\r\n\r\n"
        + head
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + chunks
        + b"0\r\nX-T: 1\r\n\r\n"
    )


def _passed(answer: Answer, data: bytes, places: list[int]) -> http.Response:
    out = b"".join(answer.receive(piece) for piece in _cut(data, places))
    if not answer.complete and not answer.broken:
        out += answer.receive(b"")
    return http.parse(out)


@given(st.binary(max_size=400) | st.just(USAGE), st.sampled_from(["length", "chunked", "close"]), cuts, cuts)
def test_the_body_that_comes_out_went_in(body: bytes, framing: str, pieces: list[int], places: list[int]) -> None:
    answer = _opened()
    passed = _passed(answer, _framed(body, framing, pieces), places)
    assert (passed.status, passed.body, passed.whole) == (200, body, True)
    assert answer.complete
    if body == USAGE:
        assert answer.usage == COUNTED


@given(
    st.sampled_from(["GET", "POST", "HEAD"]),
    st.sampled_from(["1.0", "1.1"]),
    st.sampled_from([200, 204, 206, 304, 404]),
    st.sampled_from(["length", "chunked", "close"]),
    st.binary(max_size=100),
)
def test_the_client_gets_what_h11_would_write(
    method: str, version: str, status: int, framing: str, body: bytes
) -> None:
    if method == "HEAD" or status in (204, 304):
        body = b""
    answer = _opened(None, method, version)
    data = _framed(body, framing, [], status)
    if framing == "chunked" and (method == "HEAD" or status in (204, 304)):
        data = data.partition(b"\r\n\r\n")[2].partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    out = answer.receive(data) + (b"" if answer.complete else answer.receive(b""))
    assert answer.complete
    oracle = _asked(method, version)
    headers = [("Content-Type", "text/event-stream"), ("Connection", "close")]
    if framing == "length":
        headers.insert(1, ("Content-Length", str(len(body))))
    expected = oracle.send(h11.Response(status_code=status, headers=headers, reason=b"OK"))
    pieces = [oracle.send(h11.Data(data=body))] if body else []
    assert out == b"".join([expected or b"", *filter(None, pieces), oracle.send(h11.EndOfMessage()) or b""])


@given(cuts, st.integers(0, len(USAGE)))
def test_the_usage_of_a_cut_stream_is_what_had_come(places: list[int], end: int) -> None:
    answer, whole = _opened(), _opened()
    for piece in _cut(_framed(USAGE[:end], "close", []), places):
        answer.receive(piece)
    answer.stop()
    _passed(whole, _framed(USAGE[:end], "close", []), [])
    assert answer.usage == whole.usage
    assert not answer.complete


def test_an_event_of_a_megabyte_passes_at_once() -> None:
    big = b'data: {"model":"m","x":"' + b"a" * 1_000_000 + b'","usage":{"prompt_tokens":3}}\n\n'
    answer = _opened()
    places = list(range(0, len(big), 997))
    assert _passed(answer, _framed(big, "length", []), places).body == big
    assert answer.usage.input_tokens == 3


@pytest.mark.parametrize("encoding", ["gzip", "br"])
def test_a_compressed_answer_passes_as_it_is_and_a_copy_is_read(encoding: str) -> None:
    packed = gzip.compress(USAGE)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    answer = _opened()
    passed = _passed(answer, head + packed, [30, 100, 120])
    assert (passed.body, passed.headers["content-encoding"]) == (packed, encoding)
    assert answer.usage == (COUNTED if encoding == "gzip" else Usage())


@given(cuts)
def test_a_key_does_not_come_back_in_any_part(places: list[int]) -> None:
    key = "sk-aaaa-aaab-1234"
    body = json.dumps({"error": f"{key} {key}{key[:5]}"}).encode()
    head = f"HTTP/1.1 401 {key}\r\nX-Key: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    answer = _opened(key)
    out = b"".join(answer.receive(piece) for piece in _cut(head + body, places))
    assert key.encode() not in out
    assert len(http.parse(out).body) == len(body)


@given(cuts)
def test_a_key_in_the_name_of_a_header_or_of_the_model_is_masked(places: list[int]) -> None:
    key = "sk-aaaa-aaab-1234"
    escaped = "".join(f"\\u{ord(character):04x}" for character in key)
    for named in (key, escaped):
        body = f'{{"model":"gpt {named}","usage":{{"prompt_tokens":3}}}}'.encode()
        head = f"HTTP/1.1 200 OK\r\nX-{key}: a\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        answer = _opened(key)
        out = b"".join(answer.receive(piece) for piece in _cut(head + body, places))
        assert key.encode() not in out
        assert (answer.model, answer.usage.input_tokens) == ("gpt " + "*" * len(key), 3)


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip", "GZIP"])
def test_what_is_compressed_cannot_be_masked_and_does_not_pass(encoding: str) -> None:
    packed = gzip.compress(b'{"error":"sk-aaaa-aaab-1234"}')
    head = f"HTTP/1.1 401 No\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    answer = _opened("sk-aaaa-aaab-1234")
    assert answer.receive(head + packed) == b""
    assert (answer.broken, answer.status, answer.complete) == (True, None, False)
    assert answer.problem == (
        "the destination compressed its answer, though asked not to: its key could not be masked in it"
    )
    plain = _opened("sk-aaaa-aaab-1234")
    assert _passed(plain, head.replace(encoding.encode(), b"Identity") + packed, []).whole


def test_a_client_that_left_is_sent_nothing_and_the_rest_is_read() -> None:
    answer = _opened()
    data = _framed(USAGE, "chunked", [50])
    assert answer.receive(data[:120])
    answer.client_left = True
    assert answer.receive(data[120:]) == b""
    assert answer.complete
    assert (answer.usage, answer.read_after_bytes) == (COUNTED, len(data) - 120)


@pytest.mark.parametrize(
    "data",
    [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
     b"", b"nonsense\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\n\r\n", b"HTTP/1.1 20 OK\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"],
)  # fmt: skip
def test_what_breaks_off_or_is_no_http_is_broken(data: bytes) -> None:
    answer = _opened()
    passed = _passed(answer, data, [])
    assert answer.broken
    assert not answer.complete
    assert not passed.whole


def test_what_came_before_a_break_still_passes() -> None:
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"
    answer = _opened()
    passed = http.parse(answer.receive(data))
    assert answer.broken
    assert (passed.status, passed.body, passed.whole) == (200, b"abc", False)


def test_an_answer_with_two_lengths_is_read_in_neither_way() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = _opened()
    assert answer.receive(head + b"5\r\nhello\r\n0\r\n\r\n") == b""
    assert (answer.broken, answer.status) == (True, None)


def test_what_comes_behind_an_answer_is_no_part_of_it() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    answer = _opened()
    passed = _passed(answer, head + b"HTTP/1.1 200 OK\r\n\r\nsmuggled", [])
    assert (passed.body, passed.whole) == (b"hello", True)
    assert b"smuggled" not in passed.raw
    assert not answer.reusable


@given(st.binary(max_size=300), cuts)
def test_no_bytes_of_an_upstream_can_stop_it(data: bytes, places: list[int]) -> None:
    answer = _opened()
    _passed(answer, b"HTTP/1.1 200 OK\r\n" + data, places)
    assert answer.complete != answer.broken
