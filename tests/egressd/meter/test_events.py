"""Server-sent events do not depend on where the stream is cut, and are bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.meter import kept
from egressd.meter.events import Events
from tests.egressd.meter.meters import pieces

line = st.sampled_from([
    "data: ", "data:", "data", 'data: {"usage":', ":c", "event: e", "", "", "é🌍", '{"model":"x"}', "data: 1", " data: 2",
    "datab: 3",
])  # fmt: skip
end = st.sampled_from(["\n", "\r\n", "\r"])


def _events(body: bytes, cuts: list[int]) -> list[bytes]:
    found = Events()
    return [data for piece in pieces(body, cuts) for data in found.feed(piece)] + list(found.end())


@given(st.lists(st.tuples(line, end), max_size=25), st.lists(st.integers(0, 10_000), max_size=12))
def test_events_do_not_depend_on_cuts(lines: list[tuple[str, str]], cuts: list[int]) -> None:
    body = "".join(text + ending for text, ending in lines).encode()
    assert _events(body, cuts) == _events(body, [])


@pytest.mark.parametrize(
    ("body", "data"),
    [
        (b"data: a\ndata:b\n\n", [b"a\nb"]),
        (b"data\ndata\n\n", [b"\n"]),
        (b"data:  a\r\rdata: b\r\n\r\n", [b" a", b"b"]),
        (b": a\n\nevent: x\n\nid: 1\n\n", []),
        (b"data: a\n\ndata: b", [b"a", b"b"]),
        (b"datax: a\n\n data: b\n\n", []),
    ],
)
def test_what_an_event_is(body: bytes, data: list[bytes]) -> None:
    assert _events(body, []) == data


@pytest.mark.parametrize("step", [1, 7, 100, 10_000])
def test_an_event_longer_than_the_bound_is_left_out_wherever_it_is_cut(
    monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(kept, "WHOLE_BYTES", 80)
    monkeypatch.setattr(kept, "LONGEST_BYTES", 100)
    long = b"data: " + b"a" * 101 + b"\ndata: b\n\n"
    lines = b"data: " + b"a" * 60 + b"\ndata: " + b"b" * 60 + b"\n\n"
    comment = b":" + b"c" * 200 + b"\ndata: x\n\n"
    body = b"data: 1\n\n" + long + lines + comment + b"data: 2\n\n"
    assert _events(body, list(range(0, len(body), step))) == [b"1", b"2"]


def test_lines_without_number_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "LONGEST_BYTES", 100)
    for line in (b"data\n", b"data:\n", b"data: \n"):
        assert _events(line * 99 + b"\n", []) == [b"\n" * 98]
        assert _events(line * 101 + b"\n" + b"data: 1\n\n", []) == [b"1"]
