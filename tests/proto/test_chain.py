"""The chain: sealed lines hold, erased lines hold, changed lines do not."""

import hashlib
import hmac
import json
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


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def _plainly(value: Any, key: bytes) -> Any:
    """What the module's docstring says, spelled out."""
    if isinstance(value, str):
        return {"hmac": hmac.new(key, value.encode(), hashlib.sha256).hexdigest()}
    if isinstance(value, list):
        return [_plainly(item, key) for item in value]
    if isinstance(value, dict) and set(value) != {"hmac"}:
        return {name: _plainly(item, key) for name, item in value.items()}
    return value


@given(st.dictionaries(st.sampled_from(["after", "before", "id", "time", "\uffff", "\U00010000"]), _json))
def test_the_hash_is_that_of_the_canonical_line(line: dict[str, Any]) -> None:
    sealed = chain.seal(line, chain.ZERO, _TEXTS)
    key = bytes.fromhex(sealed["salt"])
    plain = {name: _plainly(value, key) if name in _TEXTS else value for name, value in line.items()}
    text = json.dumps({**plain, "prev": chain.ZERO}, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    assert sealed["hash"] == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("field", ["before", "note"])
def test_a_line_that_is_nested_too_deeply_does_not_hold(field: str) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert not chain.holds({"prev": chain.ZERO, "hash": "", "salt": "00", field: deep}, chain.ZERO, _TEXTS)


@given(st.binary(max_size=200), st.text())
def test_the_digest_of_a_text_is_its_hmac(salt: bytes, text: str) -> None:
    line = {"after": text, "before": [text, text], "salt": salt.hex(), "hash": ""}
    digest = {"hmac": hmac.new(salt, text.encode(), hashlib.sha256).hexdigest()}
    assert chain.erase(line, _TEXTS) == {"after": digest, "before": [digest, digest], "hash": ""}
    plain = json.dumps({"after": digest, "before": [digest, digest]}, separators=(",", ":"))
    assert chain.line_hash(line, _TEXTS) == hashlib.sha256(plain.encode()).hexdigest()
