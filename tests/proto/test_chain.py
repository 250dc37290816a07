"""The chain: sealed lines hold, erased lines hold, changed lines do not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto import chain

_TEXTS = ("before", "after")
_lines = st.fixed_dictionaries(
    {"id": st.text(max_size=8), "before": st.lists(st.text(max_size=5)), "after": st.text() | st.none()}
)


@given(_lines)
def test_a_sealed_line_holds_and_so_does_its_erasure(line: dict[str, Any]) -> None:
    sealed = chain.seal(line, chain.ZERO, _TEXTS)
    assert chain.holds(sealed, chain.ZERO, _TEXTS)
    erased = chain.erase(sealed, _TEXTS)
    assert chain.holds(erased, chain.ZERO, _TEXTS)
    assert "salt" not in erased
    assert chain.erase(erased, _TEXTS) == erased


@given(_lines, st.sampled_from(["id", "before", "after", "prev", "hash"]))
def test_a_changed_field_is_found(line: dict[str, Any], field: str) -> None:
    sealed = chain.seal(line, chain.ZERO, _TEXTS)
    changed = {**sealed, field: ["another text than before"]}
    assert not chain.holds(changed, chain.ZERO, _TEXTS)


def test_two_equal_texts_have_two_digests() -> None:
    first, second = (chain.erase(chain.seal({"after": "x"}, chain.ZERO, _TEXTS), _TEXTS) for _ in range(2))
    assert first["after"] != second["after"]


def test_a_line_may_not_bring_its_own_hash() -> None:
    with pytest.raises(ValueError, match="the chain's own"):
        chain.seal({"hash": "0"}, chain.ZERO, _TEXTS)
