"""Lists of posts as the server gives them: `order` newest first, and the posts by id."""

from collections.abc import Iterable
from typing import Final

from tests.fakes.mattermost.state import Map, State

_MOST_A_PAGE: Final = 200
_MOST_SINCE: Final = 1_000
_PAGE: Final = 60


def post_list(
    posts: Iterable[Map], state: State, *, newer: str = "", older: str = "", has_next: bool | None = None
) -> Map:
    """Some posts, and the first ones of their threads, which are not in the order."""
    ordered = sorted(posts, key=lambda post: (post["create_at"], post["id"]), reverse=True)
    found = {post["id"]: post for post in ordered}
    for post in ordered:
        root = state.posts.get(post["root_id"])
        if root is not None and not root["delete_at"]:
            found.setdefault(root["id"], root)
    more = {} if has_next is None else {"has_next": has_next}
    return {
        "order": [post["id"] for post in ordered],
        "posts": found,
        "next_post_id": newer,
        "prev_post_id": older,
        **more,
        "first_inaccessible_post_time": 0,
    }


def of_channel(state: State, channel_id: str, query: dict[str, str]) -> Map:
    """GET channels/{id}/posts. After or before a post means its time: posts of the same millisecond are left out."""
    all_posts = [post for post in state.posts.values() if post["channel_id"] == channel_id]
    if int(query.get("since", 0)) > 0:
        changed = [post for post in all_posts if post["update_at"] > int(query["since"])]
        return post_list(sorted(changed, key=lambda post: -post["create_at"])[:_MOST_SINCE], state)
    there = sorted(
        (post for post in all_posts if not post["delete_at"]), key=lambda post: (post["create_at"], post["id"])
    )
    size, page = min(int(query.get("per_page", _PAGE)), _MOST_A_PAGE), int(query.get("page", 0))
    if mark := query.get("after"):
        at = state.posts[mark]["create_at"] if mark in state.posts else None
        newer = [post for post in there if at is not None and post["create_at"] > at]
        window = newer[page * size : (page + 1) * size]
    elif mark := query.get("before"):
        at = state.posts[mark]["create_at"] if mark in state.posts else None
        older = [post for post in there if at is not None and post["create_at"] < at]
        window = older[max(0, len(older) - (page + 1) * size) : len(older) - page * size]
    else:
        window = there[max(0, len(there) - (page + 1) * size) : max(0, len(there) - page * size)]
    if not window:
        return post_list((), state)
    first, last = there.index(window[0]), there.index(window[-1])
    return post_list(
        window,
        state,
        newer=there[last + 1]["id"] if last + 1 < len(there) else "",
        older=there[first - 1]["id"] if first else "",
    )


def of_thread(state: State, post: Map, query: dict[str, str]) -> Map:
    """GET posts/{id}/thread: the whole thread, or with `perPage` a page of it from a place in a direction."""
    root_id = post["root_id"] or post["id"]
    replies = sorted(
        (other for other in state.posts.values() if other["root_id"] == root_id and not other["delete_at"]),
        key=lambda other: (other["create_at"], other["id"]),
    )
    root = [state.posts[root_id]]
    size = int(query.get("perPage", 0))
    if not size:
        return post_list([*root, *replies], state, has_next=False)
    if query.get("fromCreateAt"):
        place = (int(query["fromCreateAt"]), query.get("fromPost", ""))
        down = query.get("direction", "down") == "down"
        replies = [one for one in replies if ((one["create_at"], one["id"]) > place) is down and one["id"] != place[1]]
    window = replies[-size:] if query.get("direction", "down") == "up" else replies[:size]
    return post_list([*root, *window], state, has_next=len(replies) > size)
