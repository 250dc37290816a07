"""The table of Mattermost's API: nothing but what stands there, and nothing that could mean another path."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd import routes as of_models
from egressd.mattermost.routes import ROUTES, route

ID = "a" * 26


@given(
    st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    st.lists(
        st.sampled_from(
            [
                "api",
                "v4",
                "users",
                "channels",
                "posts",
                "me",
                ID,
                "reactions",
                "thread",
                "..",
                ".",
                "",
                "a%2fb",
                "A",
                "a;b",
                "ä",
            ]
        ),
        max_size=8,
    ),
)
def test_a_path_that_is_relayed_is_plain(method: str, parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    if route(method, path) is not None:
        assert re.fullmatch(r"/api/v4(/[a-z0-9_+-][a-z0-9._+-]*)+", path)


@pytest.mark.parametrize("name", ["..", ".", "-", "1a", "a/b", "a" * 65, "A", ""])
def test_a_name_is_a_name(name: str) -> None:
    assert route("GET", "/api/v4/users/username/bob.b-2_x") is not None
    assert route("GET", f"/api/v4/users/username/{name}") is None


def test_what_posts_says_where_and_what_reads_posts_nothing() -> None:
    for row in ROUTES:
        assert (row.route.what == "post") is bool(row.route.where)
        assert row.method != "GET" or row.route.form == "nothing"
    found = route("DELETE", f"/api/v4/users/me/posts/{ID}/reactions/+1")
    assert found is not None
    assert found.post == ID


def test_a_program_of_a_session_reaches_no_mattermost_server() -> None:
    for row in ROUTES:
        assert of_models.route(["mattermost"], row.method, "/api/v4/users/me") is None
    assert of_models.route(["mattermost"], "GET", "/") is None
