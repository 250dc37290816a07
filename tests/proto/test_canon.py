"""Canonical bytes: what a reader of the contract would compute with any JSON library."""

import json
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.canon import canonical, compact, compact_bytes

_scalars = st.none() | st.booleans() | st.integers() | st.text()
_values = st.recursive(
    _scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=4), inner), max_leaves=20
)


@given(_values)
def test_they_are_those_of_the_standard_library(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    assert canonical(value) == text.encode()


@given(_values)
def test_in_their_own_order_they_are_those_that_a_person_is_shown(value: Any) -> None:
    assert compact_bytes(value) == compact(value).encode()


def test_every_character_stands_for_itself_unless_json_wants_it_escaped() -> None:
    every = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    assert canonical(every) == json.dumps(every, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "value",
    [1.0, float("nan"), "\ud800", {1: 2}, b"x", {1, 2}, uuid.UUID(int=0), [{"a": (0.5,)}], {"a": 1.0}, {"a": {b"": 1}}],
)
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        canonical(value)
