"""Every recorded-shape stream, cut wherever it may be: the usage is the uncut stream's, the bytes out are the bytes in."""

import gzip
import random
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.routes import METERS
from egressd.wire.answer import Answer
from egressd.wire.redact import Redactor
from tests.egressd import http
from tests.egressd.meter.meters import pieces, read
from tests.egressd.streams import STREAMS, Stream

SMALL = [stream for stream in STREAMS if stream.is_small]
LARGE = [stream for stream in STREAMS if not stream.is_small]
_STRIDE = 11
_ENCODED: dict[str, Callable[[bytes], bytes]] = {"identity": bytes, "gzip": gzip.compress, "deflate": zlib.compress}
_PLACES = 1000

by_name = pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
small = pytest.mark.parametrize("stream", SMALL, ids=lambda stream: stream.name)
large = pytest.mark.parametrize("stream", LARGE, ids=lambda stream: stream.name)
cuts = st.lists(st.integers(0, 1 << 21), max_size=12)


def _opened(stream: Stream) -> Answer:
    """A call whose request has gone to the upstream."""
    return http.relayed(METERS[stream.api](), Redactor())


def _passed(stream: Stream, places: list[int], encoding: str = "identity") -> None:
    """Pass a stream through the way back, cut; what comes out and what was read must be what the stream says."""
    body = _ENCODED[encoding](stream.body)
    head = f"HTTP/1.1 {stream.status}\r\nContent-Type: {stream.content_type}\r\nContent-Length: {len(body)}\r\n"
    answer = _opened(stream)
    out = [answer.receive(f"{head}Content-Encoding: {encoding}\r\n\r\n".encode())]
    out += [answer.receive(piece) for piece in pieces(body, places) if piece]
    passed = http.parse(b"".join(out))
    assert (passed.body, passed.whole, answer.complete) == (body, True, True)
    assert (answer.usage, answer.model) == (stream.usage, stream.model)


def test_there_are_streams_of_every_kind() -> None:
    assert len(STREAMS) >= 60
    assert len({stream.name for stream in STREAMS}) == len(STREAMS)
    assert {stream.api for stream in STREAMS} == set(METERS) == {stream.api for stream in LARGE}


@by_name
def test_usage_and_model(stream: Stream) -> None:
    assert read(stream.api, stream.body) == (stream.usage, stream.model)


@pytest.mark.no_cover
@small
def test_cut_at_every_byte(stream: Stream) -> None:
    """At all places at once through the way back, and at one place after another in the meter alone.

    One place in eleven, begun elsewhere in each stream: what a cut falls into (a name, an escape, a line's end) stands in
    many streams at many places.
    """
    _passed(stream, list(range(len(stream.body))))
    begin = SMALL.index(stream) % _STRIDE
    for place in range(begin, len(stream.body), _STRIDE):
        assert read(stream.api, stream.body, [place]) == (stream.usage, stream.model), place


@pytest.mark.no_cover
@large
def test_cut_at_a_thousand_random_places(stream: Stream) -> None:
    chosen = random.Random(stream.name)
    _passed(stream, [chosen.randrange(len(stream.body)) for _ in range(_PLACES)])


@given(st.sampled_from(SMALL), cuts, st.sampled_from(["identity", "gzip", "deflate"]))
def test_cut_anywhere_and_compressed(stream: Stream, places: list[int], encoding: str) -> None:
    _passed(stream, places, encoding)


@large
def test_a_large_one_compressed(stream: Stream) -> None:
    _passed(stream, [100, 1_000, 10_000], "gzip")


@given(st.sampled_from(SMALL), st.integers(0, 4096), cuts)
def test_what_a_stream_that_breaks_off_tells_does_not_depend_on_cuts(
    stream: Stream, end: int, places: list[int]
) -> None:
    assert read(stream.api, stream.body[:end], places) == read(stream.api, stream.body[:end])
