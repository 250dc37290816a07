"""The same over TLS: requests on a kept connection, and a WebSocket, whose half cannot be closed alone."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from tests.e2e.box import running
from tests.egressd.certificates import Authority
from tests.egressd.mattermost.conftest import World
from tests.egressd.mattermost.test_socket import take
from tests.fakes.egress_broker import FakeBroker
from tests.fakes.mattermost import FakeMattermost


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[World]:
    authority = Authority(tmp_path)
    home = Path(tempfile.mkdtemp(prefix="bx"))
    (home / "config").mkdir()
    (home / "config" / "egressd.toml").write_text(f'[tls]\nca_file = "{authority.ca_file}"\n')
    broker = FakeBroker(home)
    try:
        with (
            FakeMattermost(tls=authority.server("DNS:localhost")) as server,
            running(home, "egressd", environ={"MATTERMOST_TOKEN": server.bot_token}) as box,
        ):
            world = World(box, broker, server)
            world.grants()
            yield world
    finally:
        broker.stop()
        shutil.rmtree(home, ignore_errors=True)


def test_posts_and_events_over_tls(secured: World) -> None:
    server = secured.server
    with secured.listen() as socket:
        assert take(socket)["event"] == "hello"
        for text in ("one", f"two {server.bot_token}"):
            assert secured.post("posts", {"channel_id": server.dm["id"], "message": text}).status == 201
        told = [json.loads(take(socket)["data"]["post"])["message"] for _ in range(2)]
        assert told == ["one", f"two {'*' * 26}"]
        assert socket.ping().wait(5)
        socket.socket.close()
        server.wait(lambda: not server.connected)
    with secured.listen() as socket:
        take(socket)
        server.close_connections(1001)
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=5)
    with secured.listen() as socket:
        take(socket)
        server.reset_connections()
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=5)
    server.wait(lambda: not server.connected)
