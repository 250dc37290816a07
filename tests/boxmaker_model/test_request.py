"""Reading a request: OpenAI's shapes, and a clear word for everything else."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxmaker_model.request import RequestError, decode
from tests.boxmaker_model.fakes import chat


def test_a_request_of_a_common_client() -> None:
    parts = {
        "role": "user",
        "content": [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}],
    }
    request = decode(
        chat({"role": "system", "content": "s"}, {"role": "developer", "content": "d"}, parts, user="x", n=1)
    )
    assert request.messages[2].text == "a\nb"
    assert request.system == "s\n\nd"
    assert request.tool_names == {"recall", "memory", "find_tool", "call_tool"}
    assert request.wants_usage


def test_usage_can_be_declined() -> None:
    assert not decode(chat("hi", stream_options={"include_usage": False})).wants_usage


def test_everything_in_a_request_counts_as_its_text() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "memory", "arguments": '{"a":1}'}}
    rendered = decode(chat("hello", {"role": "assistant", "tool_calls": [call]})).rendered
    for text in ("hello", "call_tool", '{\\"a\\":1}'):
        assert text in rendered


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "the body is not JSON: Input data was truncated"),
        (b"{", "the body is not JSON: Input data was truncated"),
        (b"\xff\xfe", "the body is not JSON: "),
        (b'{"x":' + b"[" * 100_000, "the body is not JSON: it is nested too deep"),
        (b'{"messages":[{"role":"user","content":"\\ud800"}]}', "the body is not JSON: "),
        (b"[]", "the request is not a chat completion: Expected `object`, got `array`"),
        (b"{}", "the request is not a chat completion: Object missing required field `messages`"),
        (b'{"messages":[]}', "the request is not a chat completion: Expected `array` of length >= 1 - at `$.messages`"),
        (b'{"messages":[{"role":"boss"}]}', "Invalid enum value 'boss' - at `$.messages[0].role`"),
        (chat("x", stream="yes"), "Expected `bool | null`, got `str` - at `$.stream`"),
        (chat("x", max_tokens=0), "Expected `int` >= 1 - at `$.max_tokens`"),
        (chat("x", temperature=9), "Expected `float` <= 2.0 - at `$.temperature`"),
        (chat("x", n=2), "- at `$.n`"),
        (chat({"role": "user", "content": 7}), "- at `$.messages[0].content`"),
        (chat("x", tools=[{"type": "function", "function": "f"}]), "- at `$.tools[0].function`"),
    ],
)
def test_what_is_no_request_is_refused_with_the_place(body: bytes, sentence: str) -> None:
    with pytest.raises(RequestError) as refused:
        decode(body)
    assert refused.value.status == 400
    assert sentence in refused.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.binary() | JSON.map(lambda value: json.dumps({"messages": value}).encode()))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    with suppress(RequestError):
        assert decode(body).messages
