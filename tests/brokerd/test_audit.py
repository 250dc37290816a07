"""The audit log read from its end, and the hash that an approval is bound to."""

from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd import audit
from proto.canon import canonical, digest


@settings(max_examples=100)
@given(
    lines=st.lists(st.binary(min_size=1, max_size=40).map(lambda b: b.replace(b"\n", b"x")), max_size=12),
    torn=st.sampled_from([b"", b"half a line"]),
    block=st.integers(1, 50),
)
def test_lines_come_from_the_end_whole_and_without_a_torn_one(
    tmp_path: Path, lines: list[bytes], torn: bytes, block: int
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + torn)
    with patch.object(audit, "_BLOCK_BYTES", block):
        assert list(audit._backwards(path)) == lines[::-1]


def test_a_log_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert list(audit._backwards(tmp_path / "none")) == []


def test_arguments_are_hashed_in_their_canonical_form() -> None:
    one, other = {"a": 1, "b": ["x"]}, {"b": ["x"], "a": 1}
    assert audit.arguments_sha256(one) == audit.arguments_sha256(other) == digest(canonical(one))


@pytest.mark.parametrize("other", [{"a": 1.25}, {"a": 1}, {"a": "1.5"}])
def test_arguments_with_a_float_have_a_hash_of_their_own(other: dict[str, object]) -> None:
    assert audit.arguments_sha256({"a": 1.5}) != audit.arguments_sha256(other)
