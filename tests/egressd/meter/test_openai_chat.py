"""Usage of chat completions: which fields, which value wins, and that no cut of a stream changes it."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.meter import events
from egressd.meter.events import Events
from egressd.meter.openai_chat import OpenAiChat
from egressd.meter.usage import Usage

FULL = {
    "prompt_tokens": 120,
    "completion_tokens": 30,
    "total_tokens": 150,
    "prompt_tokens_details": {"cached_tokens": 100},
    "completion_tokens_details": {"reasoning_tokens": 12},
}
ALL = Usage(input_tokens=120, output_tokens=30, cache_read_tokens=100, reasoning_tokens=12)


def _chunk(text: str | None = None, usage: Any = None) -> dict[str, Any]:
    choices = [] if text is None else [{"index": 0, "delta": {"content": text}}]
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m-1", "choices": choices, "usage": usage}


def _stream(*chunks: dict[str, Any], end: str = "\n\n", done: bool = True) -> bytes:
    texts = [json.dumps(chunk, ensure_ascii=False) for chunk in chunks] + (["[DONE]"] if done else [])
    return "".join(f"data: {text}{end}" for text in texts).encode()


def _read(body: bytes, cuts: list[int] | None = None) -> tuple[Usage, str | None]:
    meter = OpenAiChat()
    places = [0, *sorted(cut % (len(body) + 1) for cut in cuts or []), len(body)]
    for start, stop in itertools.pairwise(places):
        meter.feed(body[start:stop])
    meter.end()
    return meter.usage, meter.model


STREAMS = {
    "usage at the end": _stream(_chunk("Grüße 🌍"), _chunk(usage=FULL)),
    "usage in each": _stream(_chunk("a", {"prompt_tokens": 1, "completion_tokens": 1}), _chunk("b", FULL)),
    "crlf": _stream(_chunk("a"), _chunk(usage=FULL), end="\r\n\r\n"),
    "cr": _stream(_chunk("a"), _chunk(usage=FULL), end="\r\r"),
    "comments": b": keep-alive\n\n" + _stream(_chunk("a"), _chunk(usage=FULL)) + b":\n\n",
    "mark": b"\xef\xbb\xbf" + _stream(_chunk(usage=FULL)),
    "no last blank line": _stream(_chunk("a"), _chunk(usage=FULL), done=False).rstrip(b"\n"),
    "fields": b"event: x\nid: 7\ndata:" + json.dumps(_chunk(usage=FULL)).encode() + b"\n\n",
    "two lines": b'data: {"model": "m-1",\ndata: "usage": ' + json.dumps(FULL).encode() + b"}\n\n",
    "json": json.dumps({**_chunk(), "usage": FULL}).encode(),
    "json after space": b"\n  " + json.dumps({**_chunk(), "usage": FULL}, indent=1).encode(),
    "error in the middle": _stream(_chunk("a"), {"error": {"message": "overloaded"}}, _chunk(usage=FULL)),
    "null after": _stream(_chunk(usage=FULL), _chunk("a", None), _chunk("b", {"prompt_tokens": None})),
}


@pytest.mark.parametrize("name", STREAMS)
def test_usage_and_model(name: str) -> None:
    assert _read(STREAMS[name]) == (ALL, "m-1")


@pytest.mark.parametrize("name", STREAMS)
def test_a_cut_at_any_byte_changes_nothing(name: str) -> None:
    body = STREAMS[name]
    assert {_read(body, [cut]) for cut in range(len(body))} == {(ALL, "m-1")}
    assert _read(body, list(range(len(body)))) == (ALL, "m-1")


line = st.sampled_from([
    "data: ", "data:", "data", 'data: {"usage":', ":c", "event: e", "", "", "é🌍", '{"model":"x"}', "data: 1", " data: 2"
])  # fmt: skip
end = st.sampled_from(["\n", "\r\n", "\r"])


@given(st.lists(st.tuples(line, end), max_size=25), st.lists(st.integers(0, 10_000), max_size=12))
def test_events_do_not_depend_on_cuts(lines: list[tuple[str, str]], cuts: list[int]) -> None:
    body = "".join(text + ending for text, ending in lines).encode()
    places = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    one, many = Events(), Events()
    whole = [*one.feed(body), *one.end()]
    cut = [data for a, b in itertools.pairwise(places) for data in many.feed(body[a:b])]
    assert cut + list(many.end()) == whole


@pytest.mark.parametrize("step", [1, 7, 100, 10_000])
def test_an_event_longer_than_the_bound_is_left_out_wherever_it_is_cut(
    monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(events, "LONGEST_EVENT_BYTES", 100)
    long = b"data: " + b"a" * 101 + b"\ndata: b\n\n"
    lines = b"data: " + b"a" * 60 + b"\ndata: " + b"b" * 60 + b"\n\n"
    comment = b":" + b"c" * 200 + b"\ndata: x\n\n"
    body = b"data: 1\n\n" + long + lines + comment + b"data: 2\n\n"
    found = Events()
    data = [event for at in range(0, len(body), step) for event in found.feed(body[at : at + step])]
    assert data == [b"1", b"2"]


@pytest.mark.parametrize(
    "usage",
    [
        None, [], "x", {"prompt_tokens": -1}, {"prompt_tokens": True}, {"prompt_tokens": 1.5}, {"prompt_tokens": 1 << 60},
        {"prompt_tokens": "12"}, {"prompt_tokens_details": 3}, {"prompt_tokens_details": {"cached_tokens": None}},
    ],
)  # fmt: skip
def test_what_is_no_count_is_none(usage: Any) -> None:
    assert _read(json.dumps({"model": "m", "usage": usage}).encode())[0] == Usage()


@given(st.binary(max_size=200))
def test_no_bytes_can_stop_it(body: bytes) -> None:
    _read(body)
    _read(b"data: " + body + b"\n\n")
    _read(b"{" + body)


def test_a_deep_value_cannot_stop_it() -> None:
    assert _read(b'data: {"usage": ' + b"[" * 100_000 + b"\n\n")[0] == Usage()
