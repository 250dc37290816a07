"""A box for each test of memoryd, where a disk that is slow to sync slows no test down."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memoryd.box import Box
from tests.memoryd.daemon import Daemon

_IN_MEMORY = Path("/dev/shm")


@pytest.fixture
def home() -> Iterator[Path]:
    """As the `home` of all tests, but in memory where there is room for it."""
    path = Path(tempfile.mkdtemp(prefix="bx", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def box(home: Path) -> Iterator[Box]:
    opened = Box(home)
    yield opened
    opened.close()


@pytest.fixture
def daemon(home: Path) -> Iterator[Daemon]:
    """A memoryd that runs."""
    started = Daemon(home).start()
    yield started
    started.kill()
