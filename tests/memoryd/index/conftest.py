"""An index for each test of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memoryd.index.box import Box


@pytest.fixture
def box(home: Path) -> Iterator[Box]:
    made = Box(home)
    yield made
    for index in made.indexes:
        index.close()
