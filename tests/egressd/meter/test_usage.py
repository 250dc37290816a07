"""Counts: what is one, which value wins, and what is a part of what."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.meter.usage import Usage, added, cache_writes, first, latest, tokens, whole_output
from egressd.routes import METERS
from proto.rules import ModelApi
from tests.egressd.meter.meters import read

count = st.none() | st.integers(0, 1 << 40)
usages = st.builds(
    Usage,
    input_tokens=count,
    output_tokens=count,
    cache_read_tokens=count,
    cache_write_5m_tokens=count,
    cache_write_1h_tokens=count,
    reasoning_tokens=count,
)
NO_COUNTS: list[Any] = [None, "12", [], {}, True, -1, 1.5, float("nan"), float("inf"), 1 << 60]


@given(usages, usages, usages)
def test_the_last_known_value_of_each_field_wins(one: Usage, two: Usage, three: Usage) -> None:
    assert latest(one, Usage()) == one == latest(Usage(), one) == latest(one, one)
    assert latest(latest(one, two), three) == latest(one, latest(two, three))
    for field in Usage.__struct_fields__:
        later = getattr(two, field)
        assert getattr(latest(one, two), field) == (getattr(one, field) if later is None else later)


@given(usages)
def test_what_is_uncached_is_never_below_nought(usage: Usage) -> None:
    cached = added(usage.cache_read_tokens, usage.cache_write_5m_tokens, usage.cache_write_1h_tokens) or 0
    assert usage.uncached == max(0, (usage.input_tokens or 0) - cached)


@pytest.mark.parametrize("value", NO_COUNTS)
def test_what_is_no_count(value: Any) -> None:
    assert tokens(value) is None
    assert first(value, 7, 8) == 7


def test_a_count_may_be_a_whole_fraction() -> None:
    assert (tokens(12.0), tokens(0), added(None, 0), added(None)) == (12, 0, 0, None)


@pytest.mark.parametrize(
    ("parts", "written"),
    [
        ((None, None, None), (None, None)),
        ((300, None, None), (300, None)),
        ((300, 100, 200), (100, 200)),
        ((300, None, 200), (100, 200)),
        ((None, 100, 200), (100, 200)),
        ((100, 0, 200), (0, 200)),
    ],
)
def test_cache_writes(parts: tuple[int | None, ...], written: tuple[int | None, int | None]) -> None:
    assert cache_writes(*parts) == written


@pytest.mark.parametrize(
    ("said", "output"),
    [((9, 94, 32, 135), 103), ((103, 94, 32, 135), 103), ((9, 94, 32, None), 9), ((9, 0, 32, 41), 9),
     ((None, 94, 32, 126), None), ((9, None, 32, 41), 9), ((9, 94, None, 103), 9)],
)  # fmt: skip
def test_reasoning_is_added_only_where_the_total_needs_it(said: tuple[int | None, ...], output: int | None) -> None:
    assert whole_output(*said) == output


def _bodies(untrusted: Any) -> dict[ModelApi, Any]:
    """The value in the place of a usage, in each API's answer."""
    return {
        "openai-chat": {"model": "m", "usage": untrusted, "choices": untrusted, "x_groq": untrusted},
        "openai-responses": {"response": {"model": "m", "usage": untrusted}},
        "anthropic": {"type": "message_start", "message": {"model": "m", "usage": untrusted}},
        "gemini": {"modelVersion": "m", "usageMetadata": untrusted},
        "code-assist": {"response": {"modelVersion": "m", "usageMetadata": untrusted}},
    }


_NAMES = [
    "prompt_tokens", "prompt_tokens_details", "input_tokens", "output_tokens_details", "cache_creation", "iterations",
    "promptTokenCount", "thoughtsTokenCount",
]  # fmt: skip


_BAD: list[Any] = ["x", -1, [3], [[]]]
_OTHERS: list[Any] = [None, "x", 3, [], [1], {"response": 3}, {"message": "x"}, {"model": 5, "usage": {}}]


@pytest.mark.parametrize("api", METERS)
def test_what_is_no_usage_counts_nothing(api: ModelApi) -> None:
    for value in [*NO_COUNTS[:6], *({name: bad} for name in _NAMES for bad in _BAD)]:
        assert read(api, json.dumps(_bodies(value)[api]).encode()) == (Usage(), "m"), value


@pytest.mark.parametrize("api", METERS)
def test_an_answer_of_another_shape_counts_nothing(api: ModelApi) -> None:
    for text in map(json.dumps, _OTHERS):
        for body in (text, f"data: {text}\n\n", f"[{text}]"):
            assert read(api, body.encode()) == (Usage(), None), body


@pytest.mark.parametrize("api", METERS)
def test_a_deep_value_cannot_stop_it(api: ModelApi) -> None:
    deep = b"[" * 20_000
    bodies = json.dumps(_bodies("DEEP")[api]).encode().replace(b'"DEEP"', deep)
    for body in (bodies, b"data: " + bodies + b"\n\n", b"[" + bodies, deep):
        assert read(api, body)[0] == Usage()


@given(st.sampled_from(sorted(METERS)), st.binary(max_size=200))
def test_no_bytes_can_stop_it(api: ModelApi, body: bytes) -> None:
    for begin in (b"", b"data: ", b"{", b"[{"):
        read(api, begin + body + b"\n\n")
