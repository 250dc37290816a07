"""Places in a JSON text are where the values stand, and an edit changes nothing beside its place."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egressd.edits import Edit, beginning, edited, items, member, members, without

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
written = st.builds(
    lambda value, indent, ascii_only: json.dumps(value, indent=indent, ensure_ascii=ascii_only),
    st.dictionaries(st.text(), values, max_size=5) | st.lists(values, max_size=5),
    st.sampled_from([None, 2, "\t"]),
    st.booleans(),
)


@settings(max_examples=30)
@given(written)
def test_every_value_is_found_where_it_stands(text: str) -> None:
    text = f" \r\n{text}\n"
    whole = json.loads(text)
    at = beginning(text)
    if isinstance(whole, dict):
        found = list(members(text, at))
        assert {one.key: one.value for one in found} == whole
    else:
        found = list(items(text, at))
        assert [one.value for one in found] == whole
    assert all(json.loads(text[one.start : one.end]) == one.value for one in found)
    ends = [place for one in found for place in (one.start, one.end)]
    assert ends == sorted(ends)


@settings(max_examples=30)
@given(st.lists(values, min_size=1, max_size=8), st.sampled_from([None, 1]), st.data())
def test_items_are_taken_out_and_the_others_stay_as_they_stood(
    listed: list[Any], indent: int | None, data: st.DataObject
) -> None:
    text = json.dumps(listed, indent=indent)
    found = list(items(text, 0))
    kept = data.draw(st.sets(st.integers(0, len(listed) - 1), min_size=1))
    gone = {one.start for number, one in enumerate(found) if number not in kept}
    after = edited(text, without(found, gone))
    assert json.loads(after) == [value for number, value in enumerate(listed) if number in kept]
    assert all(text[found[number].start : found[number].end] in after for number in kept)


def test_an_edit_leaves_numbers_keys_and_white_space() -> None:
    text = '{ "big":123456789012345678901234567890, "one" : 1.0e0,\t"x":{"max":9,"Ä":"\\u00e4"} ,"\\u0061":-0 }'
    inner = member(text, 0, "x")
    assert inner is not None
    found = member(text, inner.start, "max")
    assert found is not None
    assert edited(text, [Edit(found.start, found.end, "7")]) == text.replace('"max":9', '"max":7')
    named = member(text, 0, "a", "b")
    assert named is not None
    assert text[named.start : named.end] == "-0"


@pytest.mark.parametrize("text", ["", "  ", "[1]", '{"a" 1}', '{"a":1', '{"a":1,}', "{1:2}", '{"a":1 "b":2}', "{"])
def test_what_is_no_object_is_an_error(text: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        list(members(text, beginning(text)))
