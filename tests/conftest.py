"""Fixtures that every test may use."""

import gc
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from coverage import Coverage
from hypothesis import HealthCheck, settings

from proto.role.loop import Loop

# No test is about time: a busy machine is no failure. A test that writes under `tmp_path` cleans up in each example.
settings.register_profile(
    "box", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("box")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that no worker is left alone with one at the end. Measured are the examples: what runs hundreds
    of times takes twice as long under coverage, and seldom covers more.
    """
    items.sort(key=lambda item: not item.get_closest_marker("kill"))
    for item in items:
        if any(map(item.get_closest_marker, ("kill", "slow", "hypothesis"))) and not item.get_closest_marker(
            "measured"
        ):
            item.add_marker("no_cover")


def pytest_collection_finish() -> None:
    """What was collected stays until the end: no search for garbage goes through it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """In a worker of xdist pytest-cov begins twice; the first would go on measuring where `no_cover` stops the second."""
    while hasattr(session.config, "workerinput") and (begun := Coverage.current()):
        begun.stop()


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
def measured_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coverage costs each process that starts as much as its imports do: only where it finds something new is it taken."""
    if not request.node.get_closest_marker("measured"):
        monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
