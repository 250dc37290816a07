"""Compressed answers are read in any pieces, and none becomes larger than the bound."""

import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.wire.inflate import Overflow, inflater

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "identity": bytes,
    "": bytes,
    "X-GZIP ": gzip.compress,
}


@pytest.mark.parametrize("encoding", PACKED)
@given(body=st.binary(max_size=2000), step=st.integers(1, 500))
def test_any_pieces_give_the_same_bytes(encoding: str, body: bytes, step: int) -> None:
    packed = PACKED[encoding](body)
    found = inflater(encoding, 2000)
    assert found is not None
    assert b"".join(found.feed(packed[at : at + step]) for at in range(0, len(packed), step)) == body


@pytest.mark.parametrize("encoding", PACKED)
def test_a_bomb_is_stopped_at_the_bound(encoding: str) -> None:
    found = inflater(encoding, 1000)
    assert found is not None
    assert len(found.feed(PACKED[encoding](b"a" * 1000))) == 1000
    bomb = inflater(encoding, 1000)
    assert bomb is not None
    with pytest.raises(Overflow):
        bomb.feed(PACKED[encoding](b"a" * 10_000_000))


def test_what_is_not_compressed_is_said() -> None:
    found = inflater("gzip", 1000)
    assert found is not None
    with pytest.raises(ValueError, match="not compressed as it says"):
        found.feed(b"plain text, no gzip")


def test_an_encoding_that_is_not_known_has_no_reader() -> None:
    assert inflater("br", 1000) is None
    assert inflater("gzip, gzip", 1000) is None
