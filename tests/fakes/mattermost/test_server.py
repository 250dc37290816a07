"""The fake server keeps its word: REST, threads, lists, events, resumption, and what goes wrong on purpose."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.fakes.mattermost import FakeMattermost
from tests.fakes.mattermost.client import Rest

Map = dict[str, Any]


@pytest.fixture
def server() -> Iterator[FakeMattermost]:
    with FakeMattermost(authenticate_within_s=0.2) as found:
        yield found


@pytest.fixture
def bot(server: FakeMattermost) -> Rest:
    return Rest(server.url, server.bot_token)


def listen(server: FakeMattermost, query: str = "", *, token: str | None = None) -> ClientConnection:
    """The bot's WebSocket."""
    url = server.url.replace("http", "ws") + "/api/v4/websocket" + query
    headers = {"Authorization": f"Bearer {server.bot_token if token is None else token}"}
    return connect(url, additional_headers=headers, compression=None)


def take(socket: ClientConnection) -> Map:
    """The next message."""
    found: Map = json.loads(socket.recv(timeout=5))
    return found


def test_a_bot_knows_who_it_is_and_finds_others(server: FakeMattermost, bot: Rest) -> None:
    assert bot.get("users/me").map["id"] == server.bot["id"]
    assert bot.get("users/me").map["is_bot"] is True
    assert [user["id"] for user in bot.post("users/usernames", ["owner", "nobody"]).json] == [server.owner["id"]]
    assert bot.get(f"users/{server.owner['id']}").map["username"] == "owner"
    assert bot.get("users/username/other").map["id"] == server.other["id"]
    assert {one["id"] for one in bot.get("users/me/channels").json} == set(server.state.channels)


def test_a_direct_channel_is_named_after_its_two_members(server: FakeMattermost, bot: Rest) -> None:
    channel = bot.get(f"channels/{server.dm['id']}").map
    assert channel["type"] == "D"
    assert set(channel["name"].split("__")) == {server.bot["id"], server.owner["id"]}
    members = {one["user_id"] for one in bot.get(f"channels/{server.dm['id']}/members").json}
    assert members == {server.bot["id"], server.owner["id"]}
    assert bot.post("channels/direct", [server.bot["id"], server.owner["id"]]).map["id"] == server.dm["id"]


@pytest.mark.parametrize("token", ["", "x" * 26])
def test_without_a_token_nothing_is_said(server: FakeMattermost, token: str) -> None:
    answer = Rest(server.url, token).get("users/me")
    assert (answer.status, answer.map["id"]) == (401, "api.context.session_expired.app_error")
    assert set(answer.map) == {"id", "message", "detailed_error", "request_id", "status_code"}


def test_a_thread_grows_under_its_first_post(server: FakeMattermost, bot: Rest) -> None:
    first = server.say(server.owner, server.town, "@boxmaker hello")
    reply = bot.post("posts", {"channel_id": server.town["id"], "message": "yes?", "root_id": first["id"]})
    assert (reply.status, reply.map["root_id"]) == (201, first["id"])
    thread = bot.get(f"posts/{first['id']}/thread").map
    assert set(thread["posts"]) == {first["id"], reply.map["id"]}
    below = bot.post("posts", {"channel_id": server.town["id"], "message": "no", "root_id": reply.map["id"]})
    assert (below.status, below.map["id"]) == (400, "api.post.create_post.root_id.app_error")
    assert [post["message"] for post in server.posts(server.town, first)] == ["yes?"]


def test_a_post_is_made_once_for_each_pending_id(server: FakeMattermost, bot: Rest) -> None:
    body = {"channel_id": server.dm["id"], "message": "once", "pending_post_id": "mine:1"}
    assert bot.post("posts", body).map["id"] == bot.post("posts", body).map["id"]
    assert len(server.posts(server.dm)) == 1


def test_what_came_after_a_post_is_listed_page_by_page(server: FakeMattermost, bot: Rest) -> None:
    posts = []
    for number in range(5):
        server.faults.frozen_ms = 1_000_000 + number
        posts.append(server.say(server.owner, server.dm, str(number))["id"])
    listed = bot.get(f"channels/{server.dm['id']}/posts?after={posts[0]}&per_page=2").map
    assert listed["order"] == [posts[2], posts[1]]
    assert listed["next_post_id"] == posts[3]
    assert bot.get(f"channels/{server.dm['id']}/posts?after={posts[2]}&per_page=2").map["order"] == [posts[4], posts[3]]
    assert bot.get(f"channels/{server.dm['id']}/posts?before={posts[2]}&per_page=1").map["order"] == [posts[1]]
    assert bot.get(f"channels/{server.dm['id']}/posts?per_page=2").map["order"] == [posts[4], posts[3]]
    assert bot.get(f"channels/{server.dm['id']}/posts?since=1000002").map["order"] == [posts[4], posts[3]]


def test_deleted_and_edited_posts_come_with_since(server: FakeMattermost, bot: Rest) -> None:
    server.faults.frozen_ms = 1_000_000
    one, other = server.say(server.owner, server.dm, "one"), server.say(server.owner, server.dm, "other")
    server.faults.frozen_ms = 1_000_010
    server.edit(one["id"], "changed")
    server.delete(other["id"])
    found = bot.get(f"channels/{server.dm['id']}/posts?since=1000005").map["posts"]
    assert (found[one["id"]]["message"], found[one["id"]]["edit_at"]) == ("changed", 1_000_010)
    assert found[other["id"]]["delete_at"] == 1_000_010
    assert bot.get(f"posts/{other['id']}").status == 404


def test_a_post_is_changed_by_its_author_alone(server: FakeMattermost, bot: Rest) -> None:
    post = server.say(server.owner, server.dm, "mine")
    assert bot.put(f"posts/{post['id']}/patch", {"message": "yours"}).status == 403
    own = bot.post("posts", {"channel_id": server.dm["id"], "message": "a", "props": {"boxmaker": "x/1/1"}}).map
    assert bot.put(f"posts/{own['id']}/patch", {"message": "ab"}).map["props"]["boxmaker"] == "x/1/1"
    assert server.post(own["id"])["message"] == "ab"


def test_a_long_post_is_refused(server: FakeMattermost, bot: Rest) -> None:
    server.faults.max_post_chars = 10
    assert bot.get("config/client?format=old").map["MaxPostSize"] == "10"
    assert bot.post("posts", {"channel_id": server.dm["id"], "message": "ü" * 10}).status == 201
    answer = bot.post("posts", {"channel_id": server.dm["id"], "message": "ü" * 11})
    assert (answer.status, answer.map["id"]) == (400, "model.post.is_valid.message_length.app_error")


def test_a_reaction_is_put_once_and_taken_away(server: FakeMattermost, bot: Rest) -> None:
    post = server.say(server.owner, server.dm, "well?")
    body = {"user_id": server.bot["id"], "post_id": post["id"], "emoji_name": "white_check_mark"}
    assert [bot.post("reactions", body).status for _ in range(2)] == [201, 201]
    server.react(server.owner, post["id"], "+1")
    names = {one["emoji_name"] for one in bot.get(f"posts/{post['id']}/reactions").json}
    assert names == {"white_check_mark", "+1"}
    assert bot.delete(f"users/me/posts/{post['id']}/reactions/white_check_mark").status == 200
    assert bot.post("reactions", {**body, "user_id": server.owner["id"]}).status == 403


@pytest.mark.parametrize("form", [False, True])
def test_a_file_is_uploaded_and_posted(server: FakeMattermost, bot: Rest, form: bool) -> None:
    if form:
        parts = (
            f'--b\r\nContent-Disposition: form-data; name="channel_id"\r\n\r\n{server.dm["id"]}\r\n'
            '--b\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nlong\r\n--b--\r\n'
        )
        kind = {"Content-Type": "multipart/form-data; boundary=b"}
        answer = bot.send("POST", "files", parts.encode(), kind)
    else:
        answer = bot.send("POST", f"files?channel_id={server.dm['id']}&filename=a.txt", b"long")
    assert answer.status == 201
    info = answer.map["file_infos"][0]
    assert (info["name"], info["size"]) == ("a.txt", 4)
    post = bot.post("posts", {"channel_id": server.dm["id"], "message": "", "file_ids": [info["id"]]}).map
    assert post["metadata"]["files"][0]["id"] == info["id"]
    assert bot.get(f"files/{info['id']}").body == b"long"


def test_events_come_in_order_under_numbers(server: FakeMattermost) -> None:
    with listen(server) as socket:
        hello = take(socket)
        assert (hello["event"], hello["seq"]) == ("hello", 0)
        post = server.say(server.owner, server.dm, "hi")
        server.react(server.owner, post["id"], "x")
        server.type_(server.owner, server.dm)
        server.edit(post["id"], "hi!")
        server.delete(post["id"])
        found = [take(socket) for _ in range(5)]
    names = ["posted", "reaction_added", "typing", "post_edited", "post_deleted"]
    assert [event["event"] for event in found] == names
    assert [event["seq"] for event in found] == [1, 2, 3, 4, 5]
    assert json.loads(found[0]["data"]["post"])["message"] == "hi"
    assert found[0]["data"]["channel_type"] == "D"
    assert json.loads(found[0]["data"]["mentions"]) == [server.bot["id"]]


def test_authentication_by_a_challenge(server: FakeMattermost) -> None:
    with listen(server, token="") as socket:
        socket.send(json.dumps({"seq": 1, "action": "user_typing", "data": {}}))
        assert take(socket)["error"]["id"] == "api.web_socket_router.not_authenticated.app_error"
        challenge = {"seq": 2, "action": "authentication_challenge", "data": {"token": server.bot_token}}
        socket.send(json.dumps(challenge))
        assert take(socket) == {"status": "OK", "seq_reply": 2}
        assert take(socket)["event"] == "hello"
        socket.send(json.dumps({"seq": 3, "action": "ping"}))
        assert take(socket)["data"]["text"] == "pong"


def test_who_does_not_authenticate_is_sent_away(server: FakeMattermost) -> None:
    server.faults.refuse_token = True
    with listen(server) as socket, pytest.raises(ConnectionClosed):
        socket.recv(timeout=5)
    server.faults.refuse_upgrade = 401
    with pytest.raises(InvalidStatus):
        listen(server)


def test_a_client_that_comes_back_misses_nothing(server: FakeMattermost) -> None:
    with listen(server) as socket:
        hello = take(socket)
        server.faults.drop_next(1)
        server.say(server.owner, server.dm, "lost on the way")
        server.reset_connections()
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=5)
    server.wait(lambda: not server.connected)
    server.say(server.owner, server.dm, "meanwhile")
    with listen(server, f"?connection_id={hello['data']['connection_id']}&sequence_number=1") as socket:
        found = [take(socket), take(socket)]
    assert [json.loads(event["data"]["post"])["message"] for event in found] == ["lost on the way", "meanwhile"]
    assert [event["seq"] for event in found] == [1, 2]


@pytest.mark.parametrize("lost", ["forget", "number", "id"])
def test_what_cannot_be_resumed_begins_again(server: FakeMattermost, lost: str) -> None:
    with listen(server) as socket:
        hello = take(socket)
    server.wait(lambda: not server.connected)
    if lost == "forget":
        server.forget_connections()
    old = "x" * 26 if lost == "id" else hello["data"]["connection_id"]
    with listen(server, f"?connection_id={old}&sequence_number={7 if lost == 'number' else 1}") as socket:
        again = take(socket)
    assert (again["event"], again["seq"]) == ("hello", 0)
    assert again["data"]["connection_id"] != hello["data"]["connection_id"]


def test_events_double_and_out_of_order_and_missing(server: FakeMattermost) -> None:
    with listen(server) as socket:
        take(socket)
        server.faults.duplicate_next(1)
        server.say(server.owner, server.dm, "twice")
        server.faults.hold_next(1)
        server.say(server.owner, server.dm, "held")
        server.say(server.owner, server.dm, "first")
        server.release()
        server.skip_seq(3)
        server.say(server.owner, server.dm, "after a gap")
        assert [take(socket)["seq"] for _ in range(5)] == [1, 1, 3, 2, 7]


def test_pings_both_ways(server: FakeMattermost) -> None:
    with listen(server) as socket:
        take(socket)
        assert socket.ping().wait(5)
        server.ping_connections()
        server.wait(lambda: server.pongs)
        server.faults.answer_pings = False
        assert not socket.ping().wait(0.1)


def test_requests_fail_as_often_as_they_are_told_to(server: FakeMattermost, bot: Rest) -> None:
    server.faults.fail_next(1, 503)
    assert [bot.get("users/me").status for _ in range(2)] == [503, 200]
    server.faults.limit_next(2, "seconds", 3)
    limited = bot.get("users/me")
    assert (limited.status, limited.headers["x-ratelimit-reset"], limited.headers["retry-after"]) == (429, "3", "3")
    server.faults.limit_reset = "epoch"
    assert int(bot.get("users/me").headers["x-ratelimit-reset"]) > 1_000_000_000
    assert bot.get("users/me").status == 200


def test_an_answer_may_be_lost_after_or_before_the_deed(server: FakeMattermost, bot: Rest) -> None:
    for switch, count in ((server.faults.lose_answer_next, 1), (server.faults.lose_request_next, 1)):
        switch(1)
        with pytest.raises((ConnectionError, OSError)):
            bot.post("posts", {"channel_id": server.dm["id"], "message": "x"})
        assert len(server.posts(server.dm)) == count


def test_requests_are_kept(server: FakeMattermost, bot: Rest) -> None:
    bot.get("users/me?x=1")
    assert (server.requests[-1].path, server.requests[-1].query) == ("/api/v4/users/me", {"x": "1"})
    assert bot.get("users/me/nothing").status == 404
