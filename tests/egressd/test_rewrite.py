"""What a gateway needs changed is changed, and nothing else; what does not apply leaves a request the same to the byte."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egressd.rewrite import OUTPUT_CAP, REWRITES, rewritten
from proto.faults import Fault
from proto.rules import ModelApi
from tests.egressd.test_edits import values

APIS: tuple[ModelApi, ...] = get_args(ModelApi)
ALL = ["system-fold", "output-cap", "models-catalog", "function-response-fold"]

texts = st.text(max_size=12)
blocks = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts}), max_size=3)
content = texts | blocks
messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system"]), "content": content}), max_size=6
)
requests = st.fixed_dictionaries({"messages": messages}, optional={"system": content | st.none(), "n": values})


def _after(api: ModelApi, body: Any, *quirks: str) -> Any:
    changed = rewritten(api, json.dumps(body).encode(), quirks)
    return body if changed is None else json.loads(changed)


@settings(max_examples=30)
@pytest.mark.measured
@given(st.sampled_from(APIS), st.dictionaries(texts, values), st.sampled_from([None, 1]))
def test_a_request_that_nothing_applies_to_stays(api: ModelApi, body: dict[str, Any], indent: int | None) -> None:
    data = json.dumps(body, indent=indent).encode()
    assert rewritten(api, data, ALL) is None
    assert rewritten(api, data, []) is None


@pytest.mark.measured
@given(st.sampled_from(APIS), st.binary(max_size=40))
def test_without_quirks_nothing_is_even_read(api: ModelApi, data: bytes) -> None:
    assert rewritten(api, data, []) is None
    assert rewritten(api, data, ["models-catalog"]) is None


def _blocks(value: str | list[dict[str, Any]] | None) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else [block["text"] for block in value]


@settings(max_examples=30)
@pytest.mark.measured
@given(requests)
def test_system_messages_are_folded_in_their_order(body: dict[str, Any]) -> None:
    after = _after("anthropic", body, "system-fold")
    late = [one for one in body["messages"] if one["role"] == "system"]
    others = [one for one in body["messages"] if one["role"] != "system"]
    if not late or not others:
        assert after == body
        return
    assert after["messages"] == others
    wanted = [*_blocks(body.get("system") or None), *(text for one in late for text in _blocks(one["content"]))]
    folded = after["system"]
    assert folded == "\n\n".join(wanted) if isinstance(folded, str) else _blocks(folded) == wanted
    assert {key: value for key, value in after.items() if key not in ("system", "messages")} == {
        key: value for key, value in body.items() if key not in ("system", "messages")
    }


def test_a_fold_keeps_what_it_moves_as_it_stood() -> None:
    body = (
        b'{ "model":"q", "max_tokens":1e3,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}],\n'
        b' "messages":[ {"role":"user","content":"hi"} , {"role":"system","content":"\\u00e4 late \\ud83d"},'
        b'{"role":"assistant","content":"x"}],"top":0.10}'
    )
    assert rewritten("anthropic", body, ["system-fold"]) == (
        b'{ "model":"q", "max_tokens":1e3,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},'
        b'{"type":"text","text":"\\u00e4 late \\ud83d"}],\n'
        b' "messages":[ {"role":"user","content":"hi"},'
        b'{"role":"assistant","content":"x"}],"top":0.10}'
    )


def test_a_request_without_system_gets_one() -> None:
    body = b'{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]}'
    folded = b'{"system":"be brief","messages":[{"role":"user","content":"hi"}]}'
    assert rewritten("anthropic", body, ["system-fold"]) == folded


CAPS: list[tuple[ModelApi, dict[str, Any], dict[str, Any]]] = [
    ("openai-chat", {"max_tokens": 128_000}, {"max_tokens": OUTPUT_CAP}),
    ("openai-chat", {"max_completion_tokens": 32_769, "n": 40_000}, {"max_completion_tokens": OUTPUT_CAP, "n": 40_000}),
    ("openai-chat", {"max_output_tokens": 128_000}, {"max_output_tokens": 128_000}),
    ("openai-responses", {"max_output_tokens": 1e5}, {"max_output_tokens": OUTPUT_CAP}),
    ("openai-responses", {"max_output_tokens": OUTPUT_CAP}, {"max_output_tokens": OUTPUT_CAP}),
    ("anthropic", {"max_tokens": 64_000}, {"max_tokens": OUTPUT_CAP}),
    ("anthropic", {"max_tokens": "64000"}, {"max_tokens": "64000"}),
    ("anthropic", {"metadata": {"max_tokens": 64_000}}, {"metadata": {"max_tokens": 64_000}}),
    (
        "gemini",
        {"generationConfig": {"maxOutputTokens": 65_536}},
        {"generationConfig": {"maxOutputTokens": OUTPUT_CAP}},
    ),
    ("gemini", {"generationConfig": [65_536]}, {"generationConfig": [65_536]}),
    (
        "code-assist",
        {"request": {"generation_config": {"max_output_tokens": 65_536}}},
        {"request": {"generation_config": {"max_output_tokens": OUTPUT_CAP}}},
    ),
]


@pytest.mark.parametrize(("api", "body", "after"), CAPS)
def test_output_is_capped(api: ModelApi, body: dict[str, Any], after: dict[str, Any]) -> None:
    assert _after(api, body, "output-cap") == after
    assert _after(api, body) == body


RESULT = {"functionResponse": {"name": "t0", "response": {"output": "x"}}}
CALL = {"functionCall": {"name": "t0", "args": {}}}
FOLDS: list[tuple[list[Any], list[Any]]] = [
    ([{"role": "function", "parts": [RESULT]}], [{"role": "user", "parts": [RESULT]}]),
    (
        [
            {"role": "user", "parts": [{"text": "now"}, RESULT, {"text": "then"}, RESULT]},
            {"role": "model", "parts": [CALL]},
        ],
        [
            {"role": "user", "parts": [RESULT, RESULT]},
            {"role": "user", "parts": [{"text": "now"}, {"text": "then"}]},
            {"role": "model", "parts": [CALL]},
        ],
    ),
    ([{"parts": [RESULT, {"text": "x"}]}], [{"parts": [RESULT]}, {"role": "user", "parts": [{"text": "x"}]}]),
    ([{"role": "user", "parts": [RESULT]}], [{"role": "user", "parts": [RESULT]}]),
    ([{"role": "user", "parts": [{"text": "x"}]}], [{"role": "user", "parts": [{"text": "x"}]}]),
]


@pytest.mark.parametrize(("before", "after"), FOLDS)
def test_results_of_tools_stand_alone_in_a_content_of_the_user(before: list[Any], after: list[Any]) -> None:
    assert _after("gemini", {"contents": before}, "function-response-fold") == {"contents": after}
    wrapped = {"model": "m", "request": {"contents": before}}
    assert _after("code-assist", wrapped, "function-response-fold") == {"model": "m", "request": {"contents": after}}


@settings(max_examples=30)
@pytest.mark.measured
@given(st.sampled_from(sorted(REWRITES)), values, values)
def test_any_shape_is_left_or_stays_a_request(row: tuple[str, ModelApi], inner: Any, other: Any) -> None:
    quirk, api = row
    keys = ("messages", "system", "contents", "request", "max_tokens", "generationConfig")
    for key in keys:
        body = {key: inner, "other": other, "parts": [inner]}
        after = _after(api, body, quirk)
        assert after["other"] == other
        assert rewritten(api, json.dumps(after).encode(), [quirk]) is None


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"a":1,"a":2}', b'{"a":NaN}', b"\xff{}", b"\xef\xbb\xbf{}"])
def test_what_could_be_read_in_two_ways_is_refused(data: bytes) -> None:
    with pytest.raises(Fault) as raised:
        rewritten("anthropic", data, ["system-fold"])
    assert raised.value.code == "request-invalid"
