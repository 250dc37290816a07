"""Writing a backup: there is a whole one or none, whatever the disk says and whoever ends it."""

import fcntl
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proto.faults import Fault
from tests.bxctl.archive.making import pack


@contextmanager
def _files_of_at_most(size_bytes: int) -> Iterator[None]:
    """Python has the signal of it ignored, so that writing fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size_bytes", [100, 5_000, 70_000, 200_000])
def test_a_disk_that_takes_no_more_leaves_nothing(tmp_path: Path, size_bytes: int) -> None:
    files = {f"memory/{number}": os.urandom(50_000) for number in range(5)}
    with _files_of_at_most(size_bytes), pytest.raises(Fault) as caught:
        pack(tmp_path / "x", files)
    assert caught.value.code == "backup-failed"
    assert list(tmp_path.iterdir()) == []


def test_what_one_that_was_killed_left_goes_and_what_another_writes_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".x.aaaaaaaaaaaa.tmp")
    (tmp_path / ".x.bbbbbbbbbbbb.tmp").symlink_to("elsewhere")
    left, other, elsewhere = (
        tmp_path / f".{name}.tmp" for name in ("x.0123456789ab", "x.ba9876543210", "y.0123456789ab")
    )
    for path in (left, other, elsewhere):
        path.write_bytes(b"")
    with other.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        pack(tmp_path / "x", {"memory/a": b"a"})
    assert set(tmp_path.iterdir()) == {tmp_path / ".x.bbbbbbbbbbbb.tmp", other, elsewhere, tmp_path / "x"}
