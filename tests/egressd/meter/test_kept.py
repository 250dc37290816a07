"""A long text is kept without its long strings, whatever stands in them and wherever it is cut."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.meter import kept
from egressd.meter.kept import Emptied, Kept
from tests.egressd.meter.meters import pieces

cuts = st.lists(st.integers(0, 1 << 16), max_size=12)
text = st.text(st.sampled_from('"\\/{}[],:\né🌍a '), max_size=12)
values = st.recursive(
    text | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=6,
)


@pytest.fixture(autouse=True)
def short_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "LONGEST_STRING_BYTES", 8)


def _expected(value: Any, ascii_only: bool) -> Any:
    match value:
        case str():
            return "" if len(json.dumps(value, ensure_ascii=ascii_only).encode()) - 2 > 8 else value
        case list():
            return [_expected(item, ascii_only) for item in value]
        case dict():
            return {_expected(key, ascii_only): _expected(item, ascii_only) for key, item in value.items()}
        case _:
            return value


@given(values, st.booleans(), st.sampled_from([None, 1]), cuts)
def test_long_strings_are_empty_and_the_rest_is_the_same(
    value: Any, ascii_only: bool, indent: int | None, places: list[int]
) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    emptied = Emptied()
    out = b"".join(emptied.feed(piece) for piece in pieces(body, places))
    assert json.loads(out) == _expected(value, ascii_only)


@given(st.binary(max_size=60) | st.text('"\\a', max_size=60).map(str.encode), cuts)
def test_what_comes_out_does_not_depend_on_cuts(body: bytes, places: list[int]) -> None:
    one, many = Emptied(), Emptied()
    assert b"".join(many.feed(piece) for piece in pieces(body, places)) == one.feed(body)


def test_a_text_is_kept_whole_until_it_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "WHOLE_BYTES", 40)
    text = Kept()
    for length, expected in ((9, b"x" * 9), (60, b"")):
        for piece in (b'{"a":"', b"x" * length, b'","n":1}'):
            text.add(piece)
        assert text.take() == b'{"a":"' + expected + b'","n":1}'
    assert not text


def test_what_is_too_long_even_so_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "WHOLE_BYTES", 40)
    monkeypatch.setattr(kept, "LONGEST_BYTES", 100)
    text = Kept()
    for _ in range(101):
        text.add(b"1")
    assert text
    assert text.take() is None
    text.add(b"2")
    assert text.take() == b"2"


def test_pieces_without_number_take_no_room() -> None:
    emptied = Emptied()
    emptied.feed(b'"')
    for _ in range(1000):
        assert emptied.feed(b"x") == b""
    assert emptied.feed(b'"') == b'"'
