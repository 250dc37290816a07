"""Fixtures that every test may use."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def home() -> Iterator[Path]:
    """A new home whose path is short enough for the address of any socket in it."""
    path = Path(tempfile.mkdtemp(prefix="bx"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def anyio_backend() -> str:
    """The event loop that the daemons run on."""
    return "asyncio"
