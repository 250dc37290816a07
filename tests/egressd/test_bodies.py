"""A body is read as every reader would read it, or not at all; and what is costly to read is not read."""

import io

import pytest

from egressd import calls
from egressd.bodies import Object, field, parse
from egressd.routes import Route
from proto.faults import Fault

TEXT = b"a word, another: [1] {2} " * 30_000


@pytest.mark.parametrize("one", [b"[],", b'{"a":0},', b"0.1,", b'"a",'])
def test_a_body_that_is_costly_to_read_is_refused_before_it_is(one: bytes) -> None:
    values = one * (20_000_000 // len(one))
    with pytest.raises(Fault, match="too many values") as caught:
        parse(b'{"messages":[' + values.removesuffix(b",") + b"]}")
    assert caught.value.code == "request-too-large"


def test_a_long_text_and_a_large_image_are_read() -> None:
    body = b'{"text":"%s","image":"%s","tools":[%s]}' % (TEXT, b"A" * (24 << 20), b",".join([b'{"a":{"b":[]}}'] * 5000))
    assert len(parse(body)["tools"]) == 5000


@pytest.mark.parametrize("key", ["tools", "Tools", "TOOLS", "to_ols", "tool\u017f"])
def test_a_field_is_found_however_a_reader_may_spell_it(key: str) -> None:
    assert field(Object({key: [1]}), "tools") == [1]


@pytest.mark.parametrize("key", ["Tools", "t" + "_" * 100 + "ools"])
def test_a_field_that_stands_twice_is_refused_when_it_is_looked_for(key: str) -> None:
    body = Object({"tools": [], key: [], "model": "m"})
    assert field(body, "model") == "m"
    with pytest.raises(Fault, match="names a field twice"):
        field(body, "tools")


def test_a_body_that_is_nested_deeper_than_can_be_followed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def named(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(calls, "named", named)
    with pytest.raises(Fault, match="nested too deep"):
        calls._reading(Route("openai-responses", "call"), io.BytesIO(b"{}"), ())
