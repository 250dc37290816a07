"""A talk of the owner with the bot, in a thread of their direct channel."""

from tests.fakes.mattermost.server import FakeMattermost
from tests.fakes.mattermost.state import Map


def said(server: FakeMattermost, root: Map) -> list[str]:
    """What the bot says in a thread: each of its posts, as it is now."""
    posts = server.posts(server.dm, root)
    return [post["message"] for post in posts if post["user_id"] == server.bot["id"]]


def asked(server: FakeMattermost, text: str, root: Map | None = None, answer: str = "done") -> Map:
    """Say something and wait for the answer, which is one post; the thread's first post."""
    post = server.say(server.owner, server.dm, text, root)
    first = root or post
    count = len(said(server, first))
    server.wait(lambda: said(server, first)[count:] == [answer], 20)
    return first
