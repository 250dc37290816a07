"""A running egressd between a fake Mattermost server and a brokerd that says yes; one for the tests of a module."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.labels import DataClass
from proto.messages.broker import SessionLabel
from proto.messages.wire import Ok
from tests.e2e.box import Box, running
from tests.egressd.mattermost.asking import SESSION, Asking
from tests.fakes.egress_broker import FakeBroker
from tests.fakes.mattermost import FakeMattermost, openapi


class World(Asking):
    """The three of them."""

    def __init__(self, box: Box, broker: FakeBroker, server: FakeMattermost) -> None:
        super().__init__(box, server)
        self.broker = broker

    def label_rises(self, class_: DataClass = DataClass.SECRET) -> None:
        """Say that the session's label has risen."""
        self.box.ask("broker-egress", SessionLabel(session=SESSION, class_=class_, untrusted=False), Ok)


@pytest.fixture(scope="module")
def running_world() -> Iterator[World]:
    home = Path(tempfile.mkdtemp(prefix="bx"))
    broker = FakeBroker(home)
    try:
        with FakeMattermost(authenticate_within_s=0.2) as server:
            (home / "config").mkdir()
            (home / "config" / "egressd.toml").write_text("[mattermost]\nsockets = 2\nfile_bytes = 1000\n")
            with running(home, "egressd", environ={"MATTERMOST_TOKEN": server.bot_token}) as box:
                yield World(box, broker, server)
    finally:
        broker.stop()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def world(running_world: World) -> Iterator[World]:
    server, broker = running_world.server, running_world.broker
    running_world.grants()
    broker.asked.clear()
    broker.allow, broker.reasons, broker.before_answer = True, ["granted"], None
    server.requests.clear()
    server.answered.clear()
    yield running_world
    assert openapi.problems(server.answered) == []
    server.faults.heal()
    server.reset_connections()
    server.wait(lambda: not server.connected)
