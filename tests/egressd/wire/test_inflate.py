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


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=5),
    st.integers(1, 100),
    st.integers(0, 20),
    st.integers(1, 7),
)
def test_every_member_is_read_however_it_is_cut(bodies: list[bytes], step: int, zeros: int, missing: int) -> None:
    packed = b"".join(gzip.compress(body) + bytes(zeros) for body in bodies)
    found = inflater("gzip", 2000)
    assert found is not None
    assert b"".join(found.feed(packed[at : at + step]) for at in range(0, len(packed), step)) == b"".join(bodies)
    found.end()
    short = inflater("gzip", 2000)
    assert short is not None
    short.feed(packed[: len(packed) - zeros - missing])
    with pytest.raises(ValueError, match="the compressed answer breaks off"):
        short.end()


def test_members_share_one_bound_and_have_one_of_their_own() -> None:
    found = inflater("gzip", 1000)
    assert found is not None
    with pytest.raises(Overflow):
        found.feed(gzip.compress(b"a" * 600) * 2)
    many = inflater("gzip", 1000)
    assert many is not None
    with pytest.raises(ValueError, match="in more than 1000 pieces"):
        many.feed(gzip.compress(b"") * 1001)
    garbage = inflater("gzip", 1000)
    assert garbage is not None
    with pytest.raises(ValueError, match="not compressed as it says"):
        garbage.feed(gzip.compress(b"a") + b"garbage")


@pytest.mark.parametrize("encoding", PACKED)
def test_no_body_at_all_is_whole(encoding: str) -> None:
    found = inflater(encoding, 1000)
    assert found is not None
    found.end()
