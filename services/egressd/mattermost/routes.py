"""What of Mattermost's API is relayed: a closed table of method and path. Everything else is 404.

Each route says what its bytes are to brokerd, in what form its body must be, and where the channel is named that a
post goes to. A path is compared as it came, as in `egressd.routes`.
"""

import re
from typing import Final, Literal, NamedTuple

What = Literal["read", "post", "socket"]
"""A `read` has nothing of a session in it; a `post` is seen by others; the `socket` tells of what others do."""
Form = Literal["nothing", "ids", "names", "typing", "object", "bytes"]
"""Of a body: lists of ids or of names, who types where, a JSON object, a file as it is."""
Where = Literal["", "body", "post-in-body", "post-in-path", "query"]
"""Where a post's channel is named, or the post that is in it."""


class Route(NamedTuple):
    """What a method and a path mean; `post` is the id in the path, if that says where the channel is."""

    what: What
    form: Form
    where: Where
    post: str = ""


class _Row(NamedTuple):
    method: str
    pattern: re.Pattern[str]
    route: Route


_ID: Final = r"[a-z0-9]{26}"
_USER: Final = rf"(?:me|{_ID})"
_POST: Final = rf"(?P<post>{_ID})"
_NAME: Final = r"[a-z][a-z0-9._-]{0,63}"
_EMOJI: Final = r"[a-z0-9_+-]{1,64}"


def _row(what: What, method: str, path: str, form: Form = "nothing", where: Where = "") -> _Row:
    return _Row(method, re.compile(f"/api/v4/{path}"), Route(what, form, where))


ROUTES: Final = (
    _row("read", "GET", rf"users/{_USER}"),
    _row("read", "GET", rf"users/username/{_NAME}"),
    _row("read", "POST", "users/ids", "ids"),
    _row("read", "POST", "users/usernames", "names"),
    _row("read", "GET", rf"users/{_USER}/teams"),
    _row("read", "GET", rf"users/{_USER}/channels"),
    _row("read", "GET", rf"users/{_USER}/teams/{_ID}/channels"),
    _row("read", "POST", rf"users/{_USER}/typing", "typing"),
    _row("read", "POST", "channels/direct", "ids"),
    _row("read", "GET", rf"channels/{_ID}"),
    _row("read", "GET", rf"channels/{_ID}/members"),
    _row("read", "GET", rf"channels/{_ID}/posts"),
    _row("read", "GET", rf"posts/{_ID}"),
    _row("read", "GET", rf"posts/{_ID}/thread"),
    _row("read", "GET", rf"posts/{_ID}/reactions"),
    _row("read", "GET", "system/ping"),
    _row("read", "GET", "config/client"),
    _row("post", "POST", "posts", "object", "body"),
    _row("post", "PUT", rf"posts/{_POST}", "object", "post-in-path"),
    _row("post", "PUT", rf"posts/{_POST}/patch", "object", "post-in-path"),
    _row("post", "DELETE", rf"posts/{_POST}", "nothing", "post-in-path"),
    _row("post", "POST", "reactions", "object", "post-in-body"),
    _row("post", "DELETE", rf"users/{_USER}/posts/{_POST}/reactions/{_EMOJI}", "nothing", "post-in-path"),
    _row("post", "POST", "files", "bytes", "query"),
    _row("socket", "GET", "websocket"),
)
"""What there is (api.mattermost.com, "users", "channels", "posts", "reactions", "files", "WebSocket")."""


def route(method: str, path: str) -> Route | None:
    """The route of a method and a path without its query, or None."""
    for row in ROUTES:
        if method == row.method and (found := row.pattern.fullmatch(path)):
            return row.route._replace(post=found.groupdict().get("post") or "")
    return None
