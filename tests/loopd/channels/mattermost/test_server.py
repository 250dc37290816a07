"""What becomes of an answer: it passes, it is waited for, or it is told."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopd.channels.mattermost.ledger import Heard, Kept, Ledger, Thread
from loopd.channels.mattermost.posts import post_of, posts_of
from loopd.channels.mattermost.server import CallRefused, Server, is_passing, wait_of
from loopd.ports.mattermost import MattermostPort, Reply
from proto.faults import Fault

POST = {"id": "p" * 26, "channel_id": "c" * 26, "user_id": "u" * 26, "create_at": 5, "message": "hello"}


def reply(status: int, id: str = "", **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, named, json.dumps({"id": id, "message": "x"}).encode())


PAGE = Reply(200, {}, b"<html>Back soon</html>")


@pytest.mark.parametrize(
    ("one", "passing"),
    [
        (reply(500), True),
        (reply(503, "boxmaker.busy"), True),
        (reply(502, "boxmaker.upstream-unreachable"), True),
        (reply(403, "boxmaker.brokerd-unreachable"), True),
        (reply(401, "api.context.session_expired"), True),
        (reply(429), True),
        (reply(403, "boxmaker.ceiling"), False),
        (reply(503, "boxmaker.channel-ceiling"), False),
        (reply(403, "api.context.permissions"), False),
        (reply(404), False),
        (PAGE, True),
        (PAGE._replace(status=404), True),
        (PAGE._replace(status=302), True),
        (PAGE._replace(status=403), False),
        (PAGE._replace(status=413), False),
        (reply(400), False),
    ],
)
def test_what_may_be_another_answer_soon(one: Reply, passing: bool) -> None:
    assert is_passing(one) is passing


@pytest.mark.parametrize(
    ("one", "wait_s"),
    [
        (reply(429, x_ratelimit_reset="3"), 3.0),
        (reply(429, x_ratelimit_reset="1800000004"), 4.0),
        (reply(429, x_ratelimit_reset="1700000000"), 0.05),
        (reply(429, retry_after="7", x_ratelimit_reset="3"), 7.0),
        (reply(429, x_ratelimit_reset="soon"), None),
        (reply(503), None),
    ],
)
def test_both_forms_of_reset(one: Reply, wait_s: float | None) -> None:
    assert wait_of(one, 1_800_000_000.0) == wait_s


class Unknowing(MattermostPort):
    """The way to a server that knows nobody."""

    def __init__(self) -> None:
        super().__init__(Path(), "mattermost")

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        session: str | None = None,
        content_type: str = "application/json",
    ) -> Reply:
        return reply(404, "app.user.get.app_error")


def test_a_user_of_the_settings_whom_the_server_does_not_know_is_named() -> None:
    with pytest.raises(CallRefused, match=r"HTTP 404 app\.user\.get\.app_error: x \(@ada\)"):
        anyio.run(Server(Unknowing(), 1.0).user, "@ada")


@pytest.mark.parametrize("name", ["from_webhook", "from_plugin", "from_oauth_app"])
def test_what_a_program_posts_in_a_user_s_name_is_nobody_s(name: str) -> None:
    post = post_of(POST | {"props": {name: "true"}})
    assert post is not None
    assert post.user == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from([*POST, "type", "props", "root_id", "file_ids", "delete_at"]), JSON), JSON)
def test_what_a_post_may_hold_trips_nobody(fields: dict[str, Any], value: Any) -> None:
    """Anybody may put anything into the props of his posts."""
    names = ("from_webhook", "from_plugin", "addedUserId", "boxmaker")
    post = post_of(POST | {"props": dict.fromkeys(names, value)} | fields | {"id": POST["id"]})
    assert post is None or datetime.fromtimestamp(post.at / 1000, UTC).year <= 9999


def test_a_list_gives_the_posts_of_its_order_the_oldest_first() -> None:
    older, newer, parent = POST | {"id": "a" * 26, "create_at": 1}, POST, POST | {"id": "b" * 26, "create_at": 0}
    posts = {post["id"]: post for post in (older, newer, parent)}
    found = posts_of({"order": [newer["id"], older["id"]], "posts": posts})
    assert [post.id for post in found] == [older["id"], newer["id"]]


def test_half_a_surrogate_pair_and_files_are_words_that_can_be_kept() -> None:
    post = post_of(json.dumps(POST | {"message": "\ud800", "file_ids": ["f"]}))
    assert post is not None
    assert post.text.encode().decode() == post.text
    assert "1 file(s)" in post.text


def test_the_ledger_gives_back_what_was_kept(home: Path) -> None:
    ledger = Ledger(home / "mattermost")
    assert ledger.began(5) == 5
    heard = Heard(post="p" * 26, at=3, record=2, digest="d")
    thread = Thread(channel="c" * 26, principal="u" * 26, owner=True, heard=heard, read=(1, "x"))
    ledger.put("r" * 26, thread)
    ledger.keep("c" * 26, Kept(at=3, post="p" * 26, since=1, done={"q" * 26: 4}))
    again = Ledger(home / "mattermost")
    assert again.began(9) == 5
    assert again.thread("r" * 26) == thread
    assert again.thread("s" * 26) is None
    assert again.channels() == {"c" * 26: Kept(at=3, post="p" * 26, since=1, done={"q" * 26: 4})}


def test_a_ledger_that_cannot_be_read_answers_nothing_again(home: Path) -> None:
    ledger = Ledger(home / "mattermost")
    ledger.keep("c" * 26, Kept(at=3))
    (home / "mattermost" / "channels" / f"{'c' * 26}.json").write_text("{")
    with pytest.raises(Fault) as caught:
        ledger.channels()
    assert caught.value.runbook == "mattermost-ledger"
