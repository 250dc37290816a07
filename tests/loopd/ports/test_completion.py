"""A completion from its chunks, as different servers send them."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopd.ports.completion import GARBAGE, MOST_BYTES, MOST_CALLS, TOO_LONG, TOO_MANY, Completion, Words
from loopd.ports.sse import EventStream
from loopd.tools.calls import RawCall
from loopd.turn.steps import Answered
from tests.fakes.model import completion, events
from tests.loopd.logs import TEXT


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"delta": delta, "finish_reason": finish}]}


def calls(*pieces: Any) -> dict[str, Any]:
    return chunk(tool_calls=list(pieces))


def put(*chunks: Any) -> Answered:
    whole = Completion()
    shown = "".join(whole.add(one) for one in chunks)
    answer = whole.answer()
    assert answer.content.startswith(shown)
    return answer


REPLIES = st.fixed_dictionaries(
    {"text": TEXT, "reasoning": TEXT, "chunk": st.integers(1, 5), "usage": st.none() | st.just([7, 3])},
    optional={
        "calls": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["clock", "recall"]), "arguments": TEXT | st.just({"a": "é"})}
            ),
            max_size=3,
        )
    },
)


@settings(max_examples=100)
@given(REPLIES, st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_any_cut_of_the_stream_gives_the_same_answer_and_usage(reply: dict[str, Any], cuts: list[int]) -> None:
    data = b"".join(events(reply))
    stream, pieced, begin, turn = EventStream(), Completion(), 0, 0
    while begin < len(data):
        size = cuts[turn % len(cuts)]
        for event in stream.feed(data[begin : begin + size]):
            if event != "[DONE]":
                pieced.add(json.loads(event))
        begin, turn = begin + size, turn + 1
    whole = put(completion(reply))
    assert pieced.answer() == whole._replace(reasoning=reply["reasoning"])
    assert whole.content == reply["text"]
    assert (whole.input_tokens, whole.output_tokens) == ((7, 3) if reply["usage"] else (None, None))


@given(st.text(st.characters(categories=["Cs", "Lu", "So"]), max_size=12), st.lists(st.integers(0, 12), max_size=4))
def test_words_never_hold_half_a_surrogate_pair(text: str, cuts: list[int]) -> None:
    places = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    words = Words()
    shown = "".join(words.add(text[begin:end]) for begin, end in pairwise(places))
    words.whole().encode()
    assert words.whole().startswith(shown)
    assert words.whole() == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_a_pair_that_is_cut_between_two_chunks_is_one_character() -> None:
    assert put(chunk(content="a\ud83d"), chunk(content="\ude00b")).content == "a😀b"
    assert put(chunk(content="a\ud83d"), chunk("stop")).content == "a\ufffd"


def test_calls_are_put_together_by_index() -> None:
    answer = put(
        calls({"index": 0, "id": "a", "function": {"name": "clock", "arguments": ""}}),
        calls({"index": 1, "id": "b", "function": {"name": "recall", "arguments": '{"que'}}),
        calls({"index": 0, "function": {"arguments": "{}"}}),
        calls({"index": 1, "function": {"arguments": 'ry":1}'}}),
        chunk("tool_calls"),
    )
    assert answer.calls == (RawCall("a", "clock", "{}"), RawCall("b", "recall", '{"query":1}'))
    assert answer.finish == "tool_calls"


@pytest.mark.parametrize(
    "pieces",
    [
        [{"index": 0, "id": "a", "function": {"name": "x", "arguments": "1"}}, {"index": 0, "id": "b", "function": {"name": "y", "arguments": "2"}}],
        [{"id": "a", "function": {"name": "x", "arguments": "1"}}, {"id": "b", "function": {"name": "y", "arguments": "2"}}],
        [{"id": "a", "function": {"name": "x", "arguments": 1 * "1"}}, {"id": "b", "function": {"name": "y"}}, {"function": {"arguments": "2"}}],
        [{"index": 0, "id": "a", "function": {"name": "x"}}, {"index": 0, "id": "a", "function": {"name": "x", "arguments": "1"}},
         {"index": 3, "id": "b", "function": {"name": "y", "arguments": "2"}}],
    ],
)  # fmt: skip
def test_servers_that_count_otherwise_are_understood(pieces: list[dict[str, Any]]) -> None:
    assert put(*map(calls, pieces)).calls == (RawCall("a", "x", "1"), RawCall("b", "y", "2"))


def test_calls_of_one_chunk_without_index_are_different_ones() -> None:
    assert put(calls({"function": {"name": "x"}}, {"function": {"name": "y", "arguments": {"k": "é"}}})).calls == (
        RawCall("", "x", ""),
        RawCall("", "y", '{"k":"é"}'),
    )


def test_other_names_for_the_same() -> None:
    assert put(chunk(reasoning="hm")).reasoning == "hm"
    assert put(chunk(refusal="no")).content == "no"
    assert put(chunk(content=[{"type": "text", "text": "a"}, {"type": "image"}])).content == "a"


@pytest.mark.parametrize(
    "bad",
    [
        None, 1, "x", [], {"choices": 1}, {"choices": ["x"]}, {"choices": [{"delta": 1}]}, chunk(content=1), chunk(content={}),
        chunk(tool_calls="x"), calls("x"), calls({"function": "x"}), calls({"function": {"name": 1}}), calls({"id": 1}),
        chunk(reasoning_content=[1]), chunk(finish=1),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_garbage_is_told(bad: Any) -> None:
    with pytest.raises(ValueError) as caught:
        Completion().add(bad)
    assert str(caught.value) == GARBAGE


def test_usage_that_is_none_is_none() -> None:
    answer = put(
        {"choices": [], "usage": {"prompt_tokens": "7", "completion_tokens": -1}}, {"choices": None, "usage": []}
    )
    assert (answer.input_tokens, answer.output_tokens) == (None, None)


@pytest.mark.parametrize(("tokens", "counted"), [(0, 0), (5096, 5096), (5097, None), (1 << 39, None), (10**30, None)])
def test_a_byte_is_no_more_than_one_token(tokens: int, counted: int | None) -> None:
    whole = Completion(1000)
    whole.add({"choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": 1}})
    assert whole.answer().input_tokens == counted


def test_what_is_too_long_is_not_kept() -> None:
    whole = Completion()
    with pytest.raises(ValueError) as caught:
        for _ in range(MOST_BYTES // 1000 + 1):
            whole.add(chunk(content="é" * 500))
    assert str(caught.value) == TOO_LONG
    with pytest.raises(ValueError) as caught:
        Completion().add(calls(*({"index": number} for number in range(MOST_CALLS + 1))))
    assert str(caught.value) == TOO_MANY
