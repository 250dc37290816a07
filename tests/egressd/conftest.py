"""A running egressd, a brokerd that says yes, and a destination `up` of the test's choice."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proto.messages import egress
from tests.e2e.box import Box, running
from tests.fakes.egress_broker import FakeBroker

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def broker(home: Path) -> Iterator[FakeBroker]:
    """The decisions of brokerd."""
    found = FakeBroker(home)
    yield found
    found.stop()


@pytest.fixture
def box(home: Path, broker: FakeBroker, egressd_toml: str) -> Iterator[Box]:
    """The daemon as a process."""
    (home / "config").mkdir()
    (home / "config" / "egressd.toml").write_text(egressd_toml)
    with running(home, "egressd", environ={"UP_KEY": KEY}) as found:
        yield found


@pytest.fixture
def egressd_toml() -> str:
    """The configuration; a test module may say another."""
    return ""


@pytest.fixture
def destination(home: Path) -> Callable[..., None]:
    """Writes the destination `up` into grants.toml."""

    def write(base_url: str, *, ceiling: str = "private", credential: str | None = None) -> None:
        key = f'credential = "{credential}"\n' if credential else ""
        text = f'[destinations.up]\nbase_url = "{base_url}"\nceiling = "{ceiling}"\n{key}'
        (home / "grants.toml").write_text(text)

    return write


@pytest.fixture
def rows(box: Box) -> Callable[..., list[Any]]:
    """Asks for the usage."""

    def ask(**parts: Any) -> list[Any]:
        found: list[Any] = box.ask("owner-egress", egress.Usage(**parts), egress.UsageReply).rows
        return found

    return ask
