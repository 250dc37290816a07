"""The WebSocket through egressd: the upgrade, events down, typing up, pings both ways, and every way to end."""

import json
import time
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from tests.egressd.mattermost.asking import SESSION
from tests.egressd.mattermost.conftest import World


def take(socket: ClientConnection) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(socket.recv(timeout=5))
    return found


def test_events_come_down_and_typing_goes_up(world: World) -> None:
    server = world.server
    with world.listen() as socket:
        assert take(socket)["event"] == "hello"
        server.say(server.owner, server.dm, "Grüße")
        event = take(socket)
        assert (event["event"], json.loads(event["data"]["post"])["message"]) == ("posted", "Grüße")
        data = {"channel_id": server.dm["id"], "parent_id": ""}
        socket.send(json.dumps({"seq": 1, "action": "user_typing", "data": data}))
        assert take(socket) == {"status": "OK", "seq_reply": 1}
        assert socket.ping().wait(5)
        server.ping_connections()
        server.wait(lambda: server.pongs)
        assert not socket.protocol.extensions
    (request,) = server.requests
    assert request.headers["authorization"] == f"Bearer {server.bot_token}"
    assert not {"x-boxmaker-channel", "sec-websocket-extensions"} & set(request.headers)
    (asked,) = world.broker.asked
    assert (asked.session, asked.what, asked.path) == (None, "read", "/api/v4/websocket")


def test_the_token_is_masked_in_what_comes_down(world: World) -> None:
    server = world.server
    with world.listen() as socket:
        take(socket)
        server.say(server.owner, server.dm, f"{server.bot_token}{server.bot_token}")
        text = socket.recv(timeout=5)
    assert server.bot_token not in text
    assert json.loads(json.loads(text)["data"]["post"])["message"] == "*" * 52


def test_a_connection_that_comes_back_is_resumed(world: World) -> None:
    server = world.server
    with world.listen() as socket:
        hello = take(socket)
        server.reset_connections()
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=5)
    server.wait(lambda: not server.connected)
    server.say(server.owner, server.dm, "meanwhile")
    with world.listen(f"?connection_id={hello['data']['connection_id']}&sequence_number=1") as socket:
        assert take(socket)["seq"] == 1


def test_a_long_message_comes_whole(world: World) -> None:
    server = world.server
    server.faults.max_post_chars = 1_000_000
    with world.listen() as socket:
        take(socket)
        server.say(server.owner, server.dm, "ü" * 500_000)
        assert len(json.loads(take(socket)["data"]["post"])["message"]) == 500_000
        server.tell("noise", {"text": "x" * (9 << 20)})
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=5)


def test_each_side_ends_both(world: World) -> None:
    server = world.server
    with world.listen() as socket:
        take(socket)
        server.close_connections(1001)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=5)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001
    with world.listen() as socket:
        take(socket)
        socket.socket.close()
        server.wait(lambda: not server.connected)


def test_a_token_that_is_refused_is_told_by_silence_or_a_status(world: World) -> None:
    world.server.faults.refuse_token = True
    with world.listen() as socket, pytest.raises(ConnectionClosed):
        socket.recv(timeout=5)
    world.server.faults.refuse_upgrade = 401
    with pytest.raises(InvalidStatus) as refused:
        world.listen()
    assert refused.value.response.status_code == 401
    assert refused.value.response.body == b"{}"


def test_a_change_of_the_rules_ends_it(world: World) -> None:
    with world.listen() as socket:
        take(socket)
        world.grants(owner=False)
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=10)


def test_there_are_so_many_and_no_more(world: World) -> None:
    with world.listen() as one, world.listen() as other:
        take(one)
        take(other)
        with pytest.raises(InvalidStatus) as refused:
            world.listen()
        assert refused.value.response.status_code == 503
    world.server.wait(lambda: not world.server.connected)
    until = time.monotonic() + 5
    while True:
        try:
            with world.listen():
                return
        except InvalidStatus:
            assert time.monotonic() < until


def test_what_brokerd_denies_is_not_joined(world: World) -> None:
    world.broker.deny("rules-invalid")
    with pytest.raises(InvalidStatus) as refused:
        world.listen()
    assert refused.value.response.status_code == 403
    assert world.seen() == []


def test_it_is_no_sessions_and_at_no_other_place(world: World) -> None:
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"
    assert world.send("GET", "websocket", headers=upgrade, session=SESSION).status == 426
    assert world.read("users/me", headers=upgrade).status == 426
    assert world.read("websocket").status == 426
    assert world.send("GET", "websocket", session=SESSION).status == 426
    assert world.seen() == []


@pytest.mark.parametrize(
    "message",
    [
        {"action": "user_typing", "seq": 1, "data": {"channel_id": "a" * 26, "parent_id": "all that was said"}},
        {"action": "user_typing", "seq": 1, "data": {"channel_id": "a" * 26, "text": ""}},
        {"action": "user_typing", "seq": "said", "data": {}},
        {"action": "user_typing", "seq": True, "data": {}},
        {"action": "user_typing", "said": 1},
        {"action": "ping", "data": {"channel_id": "a" * 26}},
        {"action": "authentication_challenge", "seq": 1, "data": {"token": "x"}},
        {"action": "get_statuses", "seq": 1},
        [],
    ],
)
def test_nothing_else_is_said_up_there(world: World, message: Any) -> None:
    with world.listen() as socket:
        take(socket)
        socket.send(json.dumps(message))
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=5)
    world.server.wait(lambda: not world.server.connected)


def test_the_action_ping_is_answered(world: World) -> None:
    with world.listen() as socket:
        take(socket)
        socket.send(json.dumps({"action": "ping", "seq": 3}))
        assert take(socket)["data"]["text"] == "pong"
        socket.close(1000, "bye")
    world.server.wait(lambda: not world.server.connected)
