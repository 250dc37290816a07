"""The JSON texts of a body: by its first byte, whole, wherever it is cut, and bounded."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.meter import kept
from egressd.meter.texts import Texts
from tests.egressd.meter.meters import pieces

cuts = st.lists(st.integers(0, 1 << 16), max_size=12)
text = st.text(st.sampled_from('"\\{}[],:\né🌍a '), max_size=12)
inner = st.recursive(
    text | st.integers() | st.booleans(),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(text, parts, max_size=4),
    max_leaves=6,
)
members = st.lists(st.dictionaries(text, inner, max_size=4) | st.lists(inner, max_size=4), max_size=5)
before = st.sampled_from(["", " ", "\r\n", "\ufeff", "\n\ufeff "])


def _texts(body: bytes, places: list[int]) -> list[bytes]:
    found = Texts()
    return [text for piece in pieces(body, places) for text in found.feed(piece)] + list(found.end())


@given(members, st.sampled_from([None, 0, 2]), before, cuts)
def test_the_members_of_an_array_come_one_by_one(
    values: list[Any], indent: int | None, first: str, places: list[int]
) -> None:
    body = (first + json.dumps(values, indent=indent, ensure_ascii=False)).encode()
    assert [json.loads(text) for text in _texts(body, places)] == values


@given(st.dictionaries(text, inner, max_size=4), before, cuts)
def test_one_value_is_one_text(value: Any, first: str, places: list[int]) -> None:
    assert [json.loads(text) for text in _texts((first + json.dumps(value)).encode(), places)] == [value]


@given(
    st.lists(st.sampled_from([b"[", b"{", b"}", b"]", b'"', b"\\", b",", b"\n", b"data:", b"\xef", b"\xbb\xbf"])).map(
        b"".join
    ),
    cuts,
)
def test_no_text_depends_on_cuts(body: bytes, places: list[int]) -> None:
    assert _texts(body, places) == _texts(body, [])


def test_a_member_comes_out_at_its_closing_bracket() -> None:
    texts = Texts()
    assert list(texts.feed(b'[{"a": [1, "]"]}')) == [b'{"a": [1, "]"]}']
    assert list(texts.feed(b',{"b": "\\')) == []
    assert list(texts.feed(b'"}"}')) == [b'{"b": "\\"}"}']
    assert list(texts.feed(b"]{")) == []
    assert list(texts.end()) == []


def test_nothing_has_no_text() -> None:
    for body in (b"", b" \r\n", b"\xef\xbb\xbf", b"\xef\xbb"):
        assert _texts(body, [1, 2]) == []


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_member_longer_than_the_bound_is_left_out(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(kept, "LONGEST_BYTES", 100)
    body = b'[{"a":1},{"b":"' + b"x" * 200 + b'"},{"c":2}]'
    assert _texts(body, list(range(0, len(body), step))) == [b'{"a":1}', b'{"c":2}']
