"""REST through egressd: the table, the token, what brokerd is asked of each post, and what comes back."""

import json
import threading
from typing import Any

import pytest

from proto.labels import DataClass
from proto.messages.broker import EgressAsk
from tests.egressd.http import Response
from tests.egressd.mattermost.asking import SESSION
from tests.egressd.mattermost.conftest import World

ID = "a" * 26


def told(answer: Response) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.body)
    return found


def test_the_channel_reads_for_itself_with_the_token_on(world: World) -> None:
    answer = world.read("users/me", headers="Authorization: Bearer client-own\r\nCookie: a=b\r\n")
    assert (answer.status, told(answer)["id"]) == (200, world.server.bot["id"])
    (request,) = world.server.requests
    assert request.headers["authorization"] == f"Bearer {world.server.bot_token}"
    assert not {"cookie", "x-boxmaker-channel", "x-boxmaker-session"} & set(request.headers)
    (asked,) = world.broker.asked
    assert (asked.session, asked.what, asked.destination, asked.path) == (None, "read", "chat", "/api/v4/users/me")
    assert (asked.channel, asked.direct) == (None, False)


@pytest.mark.parametrize("parts", [{"session": SESSION}, {"session": None, "channel": "mattermost"}])
def test_posts_are_read_for_a_session_and_for_the_channel(world: World, parts: dict[str, Any]) -> None:
    dm = world.server.dm["id"]
    post = world.server.say(world.server.owner, world.server.dm, "hi")
    listed = world.send("GET", f"channels/{dm}/posts?since=1&per_page=200", **parts)
    assert post["id"] in told(listed)["posts"]
    assert world.server.requests[-1].query == {"since": "1", "per_page": "200"}
    assert told(world.send("GET", f"posts/{post['id']}/thread", **parts))["order"] == [post["id"]]
    assert {asked.what for asked in world.broker.asked} == {"read"}
    assert {asked.session for asked in world.broker.asked} == {parts["session"]}


def test_a_post_is_asked_about_with_its_channel(world: World) -> None:
    server = world.server
    for channel, direct in ((server.dm, True), (server.town, False), (server.private, False)):
        answer = world.post("posts", {"channel_id": channel["id"], "message": "a"})
        assert (answer.status, told(answer)["channel_id"]) == (201, channel["id"])
        asked = world.broker.asked[-1]
        assert (asked.session, asked.what, asked.channel, asked.direct) == (SESSION, "post", channel["id"], direct)
    assert {asked.session for asked in world.broker.asked} == {SESSION}


def test_what_kind_a_channel_is_is_asked_of_the_server_once(world: World) -> None:
    server = world.server
    for _ in range(3):
        assert world.post("posts", {"channel_id": server.dm["id"], "message": "a"}).status == 201
    assert world.seen() == [
        ("GET", f"channels/{server.dm['id']}"), ("GET", "users/me"), *[("POST", "posts")] * 3,
    ]  # fmt: skip
    assert [asked.what for asked in world.broker.asked] == ["read", "read", "post", "post", "post"]


def test_without_an_owner_no_channel_is_direct(world: World) -> None:
    world.grants(owner=False)
    assert world.post("posts", {"channel_id": world.server.dm["id"], "message": "a"}).status == 201
    assert world.seen() == [("POST", "posts")]
    assert not world.broker.asked[-1].direct


def test_a_direct_channel_of_others_that_the_bot_can_see_is_none_with_the_owner(world: World) -> None:
    server = world.server
    ids = [server.owner["id"], server.other["id"]]
    foreign = server.state.add_channel("D", "__".join(sorted(ids)), [*ids, server.bot["id"]])
    named = server.state.add_channel("P", "__".join(sorted([server.owner["id"], server.bot["id"]])), [server.bot["id"]])
    other = server.state.direct(server.bot["id"], server.other["id"])
    for channel in (foreign, named, other):
        assert world.post("posts", {"channel_id": channel["id"], "message": "a"}).status == 201
        assert not world.broker.asked[-1].direct


def test_a_post_that_is_changed_is_asked_about_with_the_channel_that_it_is_in(world: World) -> None:
    server = world.server
    post = told(world.post("posts", {"channel_id": server.town["id"], "message": "a"}))["id"]
    world.server.requests.clear()
    changes = [
        ("PUT", f"posts/{post}/patch", {"message": "ab"}),
        ("PUT", f"posts/{post}", {"id": post, "message": "abc", "channel_id": server.dm["id"]}),
        ("POST", "reactions", {"user_id": server.bot["id"], "post_id": post, "emoji_name": "x"}),
    ]
    for method, path, value in changes:
        assert world.post(path, value, method=method).status in (200, 201)
        assert (world.broker.asked[-1].what, world.broker.asked[-1].channel) == ("post", server.town["id"])
    for path in (f"users/me/posts/{post}/reactions/x", f"posts/{post}"):
        assert world.send("DELETE", path).status == 200
        assert (world.broker.asked[-1].what, world.broker.asked[-1].channel) == ("post", server.town["id"])
    assert [one for one in world.seen() if one[0] == "GET"] == [("GET", f"posts/{post}")]
    assert server.state.posts[post]["message"] == "abc"


def test_a_file_is_uploaded_to_the_channel_of_its_query(world: World) -> None:
    town = world.server.town["id"]
    answer = world.send("POST", f"files?channel_id={town}&filename=a%20b.txt", b"\x00long\xff")
    assert answer.status == 201
    info = told(answer)["file_infos"][0]
    assert (info["name"], world.server.state.files[info["id"]][1]) == ("a b.txt", b"\x00long\xff")
    assert (world.broker.asked[-1].what, world.broker.asked[-1].channel) == ("post", town)
    assert world.send("POST", f"files?channel_id={town}&filename=a.txt", b"x" * 1001).status == 413


@pytest.mark.parametrize(
    "query",
    [
        "", "?filename=a", f"?channel_id={ID}", f"?channel_id={ID}&channel_id={'b' * 26}&filename=a",
        f"?channel_id={ID}&filename=a&x=1", "?channel_id=me&filename=a", f"?channel%5Fid={ID}&channel_id={ID}&filename=a",
    ],
)  # fmt: skip
def test_a_file_without_one_channel_is_refused(world: World, query: str) -> None:
    answer = world.send("POST", f"files{query}", b"x")
    assert (answer.status, told(answer)["id"]) == (400, "boxmaker.request-invalid")
    assert (world.seen(), world.broker.asked) == ([], [])


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{", b"\xff", b'{"message":"a"}', b'{"channel_id":null,"message":"a"}',
        b'{"channel_id":"me","message":"a"}', f'{{"channel_id":"{ID}","channel_id":"{"b" * 26}"}}'.encode(),
        f'{{"channel_id":"{ID}","Channel_ID":"{"b" * 26}"}}'.encode(), f'{{"channel_id":["{ID}"]}}'.encode(),
        f'{{"channel_id":"{ID}","x":NaN}}'.encode(), f'{{"channel_id":"{ID}","poſt_id":"{ID}"}}'.encode(), f'{{"channel_id":"{ID.upper()}"}}'.encode(),
    ],
)  # fmt: skip
def test_a_post_whose_channel_cannot_be_read_is_refused(world: World, body: bytes) -> None:
    answer = world.send("POST", "posts", body)
    assert (answer.status, told(answer)["id"]) == (400, "boxmaker.request-invalid")
    assert (world.seen(), world.broker.asked) == ([], [])


@pytest.mark.parametrize(
    ("method", "path", "value"),
    [
        ("POST", "users/ids", ["me"]),
        ("POST", "users/usernames", ["a b"]),
        ("POST", "users/usernames", ["a"] * 201),
        ("POST", "users/usernames", {"a": 1}),
        ("POST", "users/me/typing", {"channel_id": ID, "text": "secret"}),
        ("POST", "users/me/typing", {"channel_id": "all that was said"}),
        ("GET", "users/me", {"a": 1}),
    ],
)
def test_what_is_read_carries_nothing_else(world: World, method: str, path: str, value: Any) -> None:
    assert world.read(path, method, value).status == 400
    assert world.seen() == []


def test_who_types_and_who_somebody_is(world: World) -> None:
    server = world.server
    assert world.read("users/me/typing", "POST", {"channel_id": server.dm["id"], "parent_id": ""}).status == 200
    assert server.typed == 1
    found = world.read("users/usernames", "POST", ["owner"])
    assert json.loads(found.body)[0]["id"] == server.owner["id"]
    pair = [server.bot["id"], server.owner["id"]]
    assert told(world.read("channels/direct", "POST", pair))["id"] == server.dm["id"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "users"), ("GET", "users/me/"), ("GET", "users/ME"), ("GET", "users/me%2f"), ("PUT", "users/me"),
        ("POST", "users/login"), ("POST", "users/me/tokens"), ("GET", "config"), ("POST", "posts/ephemeral"),
        ("GET", f"channels/{ID}/../posts"), ("GET", f"files/{ID}"), ("POST", "bots"), ("DELETE", f"channels/{ID}"),
        ("POST", f"posts/{ID}/patch"), ("GET", "posts"), ("POST", "hooks/incoming"), ("GET", f"posts/{ID}0"),
    ],
)  # fmt: skip
def test_what_is_not_in_the_table_is_not_there(world: World, method: str, path: str) -> None:
    answer = world.send(method, path)
    assert (answer.status, told(answer)) == (
        404,
        {
            "id": "boxmaker.route-unknown",
            "message": "the API has no such method and path",
            "detailed_error": "",
            "request_id": "",
            "status_code": 404,
        },
    )
    assert world.seen() == []


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ({"session": None}, "users/me"),
        ({"session": SESSION, "channel": "mattermost"}, "users/me"),
        ({"session": None, "channel": "other"}, "users/me"),
        ({"session": None, "channel": "mattermost", "headers": "X-Boxmaker-Channel: mattermost\r\n"}, "users/me"),
        ({"session": None, "channel": "mattermost", "destination": "model"}, "users/me"),
    ],
)
def test_each_request_is_a_sessions_or_the_channels(world: World, parts: dict[str, Any], path: str) -> None:
    assert world.send("GET", path, **parts).status == 400
    assert (world.seen(), world.broker.asked) == ([], [])


def test_the_channel_posts_nothing_for_itself(world: World) -> None:
    body = {"channel_id": world.server.dm["id"], "message": "a"}
    answer = world.read("posts", "POST", body)
    assert (answer.status, told(answer)["id"]) == (400, "boxmaker.request-invalid")
    assert (world.seen(), world.broker.asked) == ([], [])


def test_a_model_is_not_asked_for_on_a_mattermost_server_nor_the_other_way(world: World) -> None:
    assert world.post("../../v1/chat/completions", {}).status == 404
    assert world.send("GET", "users/me", destination="model").status == 404
    assert world.seen() == []


def test_what_brokerd_denies_does_not_leave(world: World) -> None:
    def before(asked: EgressAsk) -> None:
        world.broker.allow = asked.what != "post"

    world.broker.reasons, world.broker.before_answer = ["channel-ceiling"], before
    answer = world.post("posts", {"channel_id": world.server.town["id"], "message": "a"})
    assert (answer.status, told(answer)["id"]) == (403, "boxmaker.channel-ceiling")
    assert told(answer)["message"] == (
        "refused: the session's label is above the ceiling of the Mattermost channel (runbook: channel-ceiling)"
    )
    assert world.seen() == [("GET", f"channels/{world.server.town['id']}")]
    world.broker.before_answer = None
    world.broker.deny("ceiling")
    world.grants()
    world.server.requests.clear()
    assert (
        told(world.post("posts", {"channel_id": world.server.town["id"], "message": "a"}))["id"] == "boxmaker.ceiling"
    )
    assert world.seen() == []


@pytest.mark.parametrize("reset", ["seconds", "epoch"])
def test_too_many_requests_come_back_as_the_server_says_it(world: World, reset: Any) -> None:
    world.server.faults.limit_next(2, reset, 7)
    read = world.read("users/me")
    looked = world.post("posts", {"channel_id": world.server.dm["id"], "message": "a"})
    for answer in (read, looked):
        assert (answer.status, answer.body, answer.whole) == (429, b"limit exceeded\n", True)
        assert answer.headers["x-ratelimit-remaining"] == "0"
        assert (answer.headers["x-ratelimit-reset"] == "7") is (reset == "seconds")
        assert answer.headers.get("retry-after") == ("7" if reset == "seconds" else None)
    assert world.post("posts", {"channel_id": world.server.dm["id"], "message": "a"}).status == 201


def test_what_the_server_refuses_comes_back_as_it_is(world: World) -> None:
    world.server.faults.refuse_token = True
    body = {"channel_id": world.server.dm["id"], "message": "a"}
    for answer in (world.read("users/me"), world.post("posts", body)):
        assert (answer.status, told(answer)["id"]) == (401, "api.context.session_expired.app_error")
    world.server.faults.refuse_token = False
    assert world.post("posts", {**body, "channel_id": ID}).status == 404
    assert world.send("DELETE", f"posts/{ID}").status == 404
    world.server.faults.fail_next(1, 503)
    assert world.read("users/me").status == 503
    world.server.faults.lose_request_next(1)
    lost = world.read("users/me")
    assert (lost.status, told(lost)["id"]) == (502, "boxmaker.upstream-unreachable")


def test_the_token_is_masked_in_what_comes_back(world: World) -> None:
    token = world.server.bot_token
    post = world.server.say(world.server.owner, world.server.dm, f"it is {token}!")
    answer = world.read(f"posts/{post['id']}")
    assert told(answer)["message"] == f"it is {'*' * 26}!"
    assert token.encode() not in answer.raw


def test_a_label_that_rises_ends_an_upload_to_a_channel_that_is_now_too_low(world: World) -> None:
    world.server.faults.delay_s = 0
    assert world.post("posts", {"channel_id": world.server.town["id"], "message": "looked at"}).status == 201
    world.server.faults.delay_s = 20
    answers: list[Response] = []
    body = {"channel_id": world.server.town["id"], "message": "b"}
    posting = threading.Thread(target=lambda: answers.append(world.post("posts", body)))
    count = len(world.server.requests)
    posting.start()
    world.server.wait(lambda: len(world.server.requests) > count and world.seen()[-1] == ("POST", "posts"))
    world.label_rises(DataClass.PRIVATE)
    assert posting.is_alive()
    world.label_rises()
    posting.join(5)
    assert (answers[0].status, told(answers[0])["id"]) == (403, "boxmaker.ceiling")


def test_an_open_channel_named_public_is_too_low_for_private(world: World) -> None:
    town = world.server.town["id"]
    world.grants(more=f'[mattermost.channels.{town}]\nceiling = "public"\n')
    assert world.post("posts", {"channel_id": town, "message": "looked at"}).status == 201
    world.server.requests.clear()
    world.server.faults.delay_s = 20
    answers: list[Response] = []
    posting = threading.Thread(target=lambda: answers.append(world.post("posts", {"channel_id": town, "message": "b"})))
    posting.start()
    world.server.wait(lambda: world.seen() == [("POST", "posts")])
    world.label_rises(DataClass.PRIVATE)
    posting.join(5)
    assert answers[0].status == 403
