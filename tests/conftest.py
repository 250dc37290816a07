"""Fixtures that every test may use."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from proto.role.loop import Loop

# No test is about time: a busy machine is no failure. A test that writes under `tmp_path` cleans up in each example.
settings.register_profile(
    "box", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("box")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: not item.get_closest_marker("kill"))


@pytest.fixture
def home() -> Iterator[Path]:
    """A new home whose path is short enough for the address of any socket in it."""
    path = Path(tempfile.mkdtemp(prefix="bx"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The event loop that the daemons run on."""
    return "asyncio", {"loop_factory": Loop}


@pytest.fixture(autouse=True)
def no_log_of_another_test() -> Iterator[None]:
    """A daemon's `main` writes its log to the standard error of the test that called it, which ends with that test."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def no_coverage_of_the_killed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends by SIGKILL tells no coverage; starting it fifty times with coverage costs minutes."""
    if request.node.get_closest_marker("kill"):
        monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
