"""Fixtures that every test may use."""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

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


class Loop(asyncio.SelectorEventLoop):
    """An event loop in which bytes may arrive in the very step in which nobody waits for them any more.

    anyio's Unix sockets wait for `Future.set_result` to be called when there is something to read. When the wait is
    cancelled in the same step, the future is done already, and the error of setting it twice would fail a test.
    """

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        super().add_reader(fd, _unless_done, callback, *args)

    def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        super().add_writer(fd, _unless_done, callback, *args)


def _unless_done(callback: Callable[..., Any], *args: Any) -> None:
    with contextlib.suppress(asyncio.InvalidStateError):
        callback(*args)


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
