"""Posts and reactions as the server tells of them, pure: what is read of its JSON, and nothing else of it."""

import json
import re
from typing import Any, Final, NamedTuple

PROP: Final = "boxmaker"
"""Every post of ours says in its props, under this name, `<session>/<turn>/<part>`."""
ATTACHED: Final = "(attached to this message: {count} file(s), which cannot be read here)"
_MACHINES: Final = ("from_webhook", "from_plugin", "from_oauth_app")
"""Props of posts that a program made in a user's name: what it says is nobody's word."""
_OF_SYSTEM: Final = "system_"
"""How the kinds of posts begin that the server alone makes: anybody may put any props on his own."""
_LATEST_MS: Final = 253_402_300_799_999
"""The last moment of the year 9999; a later one is no date in Python."""
_ID: Final = re.compile(r"[a-z0-9]{26}\Z")


class Post(NamedTuple):
    """A post. `at` is its `create_at` in milliseconds; `root` is "" for the first post of a thread; `kind` is "" for
    what a user wrote; `key` is our own mark, if it bears one.
    """

    id: str
    at: int
    channel: str
    user: str
    text: str
    root: str = ""
    kind: str = ""
    key: str = ""
    deleted: bool = False
    edited: int = 0
    joined: str = ""
    """The user whose coming into the channel a system post tells of."""

    @property
    def thread(self) -> str:
        """The id of the thread's first post."""
        return self.root or self.id

    @property
    def place(self) -> tuple[int, bool]:
        """Where it stands among others: by its time, and in one millisecond a thread's first post is first."""
        return self.at, self.root != ""

    @property
    def order(self) -> tuple[int, str]:
        """Posts are in the order of their times; those of the same millisecond in that of their ids."""
        return self.at, self.id


class Reaction(NamedTuple):
    """A user put an emoji on a post."""

    post: str
    user: str
    emoji: str


class User(NamedTuple):
    """A user, and the name by which he is called, without `@`."""

    id: str
    name: str


def is_id(text: object) -> bool:
    """Whether this is an id of Mattermost's: 26 lower-case letters and digits."""
    return isinstance(text, str) and _ID.match(text) is not None


def post_of(untrusted: Any) -> Post | None:
    """The post in a JSON value, or in a text that holds it; None if there is none."""
    value = _map(untrusted)
    if value is None or not is_id(value.get("id")) or not is_id(value.get("channel_id")):
        return None
    props = _map(value.get("props")) or {}
    user, kind = _text(value.get("user_id")), _text(value.get("type"))
    # Not looked up in a set: what may be anything may be a list, which has no hash.
    if any(props.get(name) in ("true", True) for name in _MACHINES):
        user = ""
    root, files = value.get("root_id"), value.get("file_ids")
    text = _text(value.get("message"))
    if isinstance(files, list) and files:
        text = f"{text}\n{ATTACHED.format(count=len(files))}".strip()
    return Post(
        id=value["id"],
        at=_number(value.get("create_at")),
        channel=value["channel_id"],
        user=user,
        text=text,
        root=root if isinstance(root, str) and is_id(root) else "",
        kind=kind,
        key=_text(props.get(PROP)),
        deleted=_number(value.get("delete_at")) > 0,
        edited=_number(value.get("edit_at")),
        joined=_joined(kind, user, props),
    )


def is_post_list(untrusted: Any) -> bool:
    """Whether a JSON value is a list of posts as the server gives them."""
    value = untrusted if isinstance(untrusted, dict) else {}
    return isinstance(value.get("order"), list) and isinstance(value.get("posts"), dict)


def posts_of(untrusted: Any) -> list[Post]:
    """The posts of a list of posts that stand in its order, the oldest first: its map may hold others beside them."""
    if not is_post_list(untrusted):
        return []
    order, posts = untrusted["order"], untrusted["posts"]
    found = (post_of(posts.get(one)) for one in reversed(order) if isinstance(one, str))
    return sorted((post for post in found if post is not None), key=lambda post: post.place)


def reaction_of(untrusted: Any) -> Reaction | None:
    """The reaction in a JSON value, or in a text that holds it."""
    value = _map(untrusted)
    if value is None or not is_id(value.get("post_id")) or not is_id(value.get("user_id")):
        return None
    return Reaction(value["post_id"], value["user_id"], _text(value.get("emoji_name")))


def user_of(untrusted: Any) -> User | None:
    """The user in a JSON value, or in a text that holds it."""
    value = _map(untrusted)
    if value is None or not is_id(value.get("id")) or not _text(value.get("username")):
        return None
    return User(value["id"], _text(value["username"]))


def _joined(kind: str, user: str, props: dict[str, Any]) -> str:
    if not kind.startswith(_OF_SYSTEM):
        return ""
    return _text(props.get("addedUserId")) or (user if "join" in kind else "")


def _map(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str):
        # Events hold their post as a text of JSON.
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _text(value: Any) -> str:
    # Half a surrogate pair, which JSON can hold, cannot be logged or sent on.
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and 0 <= value <= _LATEST_MS else 0
