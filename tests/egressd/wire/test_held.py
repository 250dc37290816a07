"""What the clients of one session hold together: little in memory, not too much on disk, and all of it given back."""

from pathlib import Path

import pytest

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
    spools[0].seek(0)
    assert spools[0].read() == PIECE + b"b"
    for spool in spools:
        spool.close()
        spool.close()
    assert held.bytes == 0


def test_more_than_may_be_held_is_refused_and_what_was_held_is_given_back(home: Path) -> None:
    held = Held(len(PIECE))
    with Spool(home, held) as first, Spool(home, held) as second:
        first.take(PIECE)
        with pytest.raises(Fault) as caught:
            second.take(b"b")
        assert caught.value.code == "busy"
    assert held.bytes == 0
