"""The copy of the rows for a backup: one moment of them, while another thread goes on to write."""

import threading
from pathlib import Path

import pytest

from egressd.meter.usage import Usage
from egressd.store import FILE, Begun, Settled, UsageStore
from proto.faults import Fault
from proto.role.backup import Taken

COUNT = 300


def _call(store: UsageStore, number: int) -> None:
    store.begin(
        Begun(
            call=f"c{number}", session="chat-a", destination="local", model="m", began="2026-09-24T21:02:03Z",
            api="openai-chat", auth="none", billing="metered",
        )
    )  # fmt: skip
    store.settle(
        Settled(
            call=f"c{number}", status=200, ended="complete", partial=False, finished="2026-09-24T21:02:04Z",
            usage=Usage(), model="m",
        )
    )  # fmt: skip
    store.write()


def test_a_copy_is_one_moment_of_the_rows(home: Path) -> None:
    state = home / "state/egressd"
    state.mkdir(parents=True)
    store = UsageStore(state)
    _call(store, 0)
    copies: list[Taken] = []
    thread = threading.Thread(target=lambda: copies.extend(store.copied(home) for _ in range(5)))
    thread.start()
    for number in range(1, COUNT):
        _call(store, number)
    thread.join()
    counts = []
    for number, taken in enumerate(copies):
        folder = home / str(number)
        folder.mkdir()
        with taken.file:
            (folder / FILE).write_bytes(taken.file.read())
        assert (taken.path, taken.size_bytes) == (f"state/egressd/{FILE}", (folder / FILE).stat().st_size)
        copy = UsageStore(folder)
        counts.append(copy.calls_of("chat-a"))
        assert copy.settle_left("2026-09-24T21:02:05Z") <= 1
        copy.close()
    assert counts == sorted(counts)
    assert counts[0] >= 1
    assert store.calls_of("chat-a") == COUNT
    store.close()
    assert {path.name for path in state.iterdir()} <= {FILE, f"{FILE}-wal", f"{FILE}-shm"}


def test_a_copy_that_the_disk_refuses_is_told_and_leaves_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = home / "state/egressd"
    state.mkdir(parents=True)
    store = UsageStore(state)
    store.close()
    (state / FILE).write_bytes(b"no database at all, but long enough to look at" * 100)
    with pytest.raises(OSError, match="the rows cannot be copied"):
        store.copied(home)
    assert [path.name for path in state.iterdir()] == [FILE]
    with pytest.raises(Fault):
        UsageStore(state)
