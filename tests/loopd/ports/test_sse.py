"""Server-sent events: any cut of a stream gives the same events."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopd.ports.sse import MOST_LINE_BYTES, EventStream

LINES = st.lists(
    st.sampled_from(
        [b"data: a", b"data:b", b"data: ", b"", b"", b": comment", b"event: x", b"data: \xe8\xa8\x98", b"id"]
    )
    | st.binary(max_size=4).map(lambda raw: b"data: " + raw.replace(b"\r", b"").replace(b"\n", b"")),
    max_size=12,
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def read(pieces: list[bytes]) -> list[str]:
    stream = EventStream()
    events = [event for piece in pieces for event in stream.feed(piece)]
    return events + stream.close()


@settings(max_examples=200)
@given(LINES, ENDS, st.lists(st.integers(0, 80), max_size=6))
def test_any_cut_gives_the_same_events(lines: list[bytes], end: bytes, cuts: list[int]) -> None:
    data = end.join(lines) + end
    places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    pieces = [data[begin:stop] for begin, stop in pairwise(places)]
    assert read(pieces) == read([data]) == read([data[index : index + 1] for index in range(len(data))])


@settings(max_examples=100)
@given(LINES)
def test_the_ends_of_lines_do_not_matter(lines: list[bytes]) -> None:
    assert (
        read([b"\n".join(lines) + b"\n"]) == read([b"\r\n".join(lines) + b"\r\n"]) == read([b"\r".join(lines) + b"\r"])
    )


def test_what_an_event_is() -> None:
    stream = b"\xef\xbb\xbfdata: one\ndata:two\n\n: a comment\nevent: x\n\ndata: {}\r\n\r\ndata: last\n"
    assert read([stream]) == ["one\ntwo", "{}", "last"]


def test_an_unfinished_line_is_no_event() -> None:
    assert read([b"data: a\n\ndata: b"]) == ["a"]


def test_a_line_without_end_is_refused() -> None:
    stream = EventStream()
    with pytest.raises(ValueError, match="too long"):
        for _ in range(MOST_LINE_BYTES // 65536 + 1):
            stream.feed(b"x" * 65536)
