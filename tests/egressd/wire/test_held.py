"""What the clients of one session hold together: little in memory, not too much on disk, and all of it given back."""

import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.wire import door
from egressd.wire.door import Held, Spool
from proto.faults import Fault

PIECE = b"a" * 100_000


def test_bodies_that_never_end_do_not_fill_the_memory(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_HELD_IN_MEMORY_BYTES", 10 * len(PIECE))
    held = Held()
    spools = [Spool(home, held) for _ in range(30)]
    for spool in spools:
        spool.take(PIECE)
    assert held.bytes == 30 * len(PIECE)
    assert [spool.is_on_disk for spool in spools] == [False] * 10 + [True] * 20
    spools[0].take(b"b")
    assert spools[0].is_on_disk
    with spools[0] as body:
        assert body.read() == PIECE + b"b"
    for spool in spools:
        spool.close()
        spool.close()
    assert held.bytes == 0


@given(st.lists(st.integers(1, 900_000), max_size=6))
def test_a_body_is_what_was_taken_and_a_long_one_is_in_a_file(sizes_bytes: list[int]) -> None:
    data = [bytes([number]) * size_bytes for number, size_bytes in enumerate(sizes_bytes)]
    with tempfile.TemporaryDirectory() as folder:
        spool = Spool(Path(folder), Held())
        for piece in data:
            spool.take(piece)
        assert spool.is_on_disk == (sum(sizes_bytes) > 1 << 20)
        with spool as body:
            assert body.read() == b"".join(data)
        assert list(Path(folder).iterdir()) == []


def test_more_than_may_be_held_is_refused_and_what_was_held_is_given_back(home: Path) -> None:
    held = Held(len(PIECE))
    with closing(Spool(home, held)) as first, closing(Spool(home, held)) as second:
        first.take(PIECE)
        with pytest.raises(Fault) as caught:
            second.take(b"b")
        assert caught.value.code == "busy"
    assert held.bytes == 0
