"""The calls of Mattermost's REST that the channel makes, each tried until it is answered for good.

A failure that passes (no connection, 5xx, 408, 429 with either form of Reset, a token that is refused for now, brokerd
or the server away, the page of a proxy in the server's place) is waited for. Any other is told: `CallRefused`.
"""

import random
import time
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

import anyio
import msgspec

from loopd.channels.mattermost.feed import Channel, Read
from loopd.channels.mattermost.link import rest
from loopd.channels.mattermost.posts import PROP, Post, is_id, is_post_list, post_of, posts_of
from loopd.ports.mattermost import Gone, MattermostPort, Reply, TooLong
from proto.escape import clip
from proto.role.log import logger

PAGE: Final = 200
DEFAULT_LIMIT: Final = 16_383
_EPOCH: Final = 1_000_000_000
"""A Reset above it is a time since 1970; below, it is a number of seconds."""
_PASSES: Final = frozenset({401, 408, 425, 429, 500, 502, 503, 504})
_PAGES: Final = frozenset({*range(200, 400), 404, 405})
"""What a proxy says with a page of its own while the server is away; a refusal of the server is JSON."""
_OF_EGRESS: Final = "boxmaker."
_EGRESS_PASSES: Final = frozenset({"brokerd-unreachable", "upstream-unreachable", "busy", "rules-invalid", "internal"})
_EGRESS_ENDS: Final = frozenset(
    {"ceiling", "channel-ceiling", "session-not-open", "session-state-lost", "policy-invalid"}
)
_QUOTED_CHARS: Final = 200
_TOO_LONG: Final = "answer-too-long"


class CallRefused(Exception):
    """A call that will not be taken: the status, and the code of egressd's refusal or of the server's error."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"HTTP {status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message


class Server:
    """The server behind egressd. `most_s` bounds every rest between two tries."""

    def __init__(
        self,
        port: MattermostPort,
        most_s: float,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.port = port
        self._most_s = most_s
        self._sleep = sleep
        self.wall = wall
        self._names: dict[str, str] = {}
        self.waiting: tuple[str, str] | None = None
        """Why the last request that was tried waits, and the runbook's entry; None when it was answered."""

    async def me(self) -> tuple[str, str]:
        """The id and the name of the bot's own user."""
        found = _map(await self._read("users/me"))
        self._check(is_id(found.get("id")) and isinstance(found.get("username"), str), "users/me")
        return str(found["id"]), str(found["username"])

    async def now_ms(self) -> int:
        """The time of the server's clock, or of ours where it does not tell."""
        reply = await self.patiently(lambda: self.port.ask("GET", "system/ping"), "system/ping")
        try:
            return int(parsedate_to_datetime(reply.headers.get("date", "")).timestamp() * 1000)
        except ValueError:
            return int(self.wall() * 1000)

    async def user(self, name: str) -> str:
        """The id of a user, given as an id or as `@name`."""
        if is_id(name):
            return name
        try:
            found = _map(await self._read(f"users/username/{quote(name.removeprefix('@'), safe='')}"))
        except CallRefused as refused:
            raise CallRefused(refused.status, refused.code, f"{refused.message} ({name})") from None
        self._check(is_id(found.get("id")), name)
        return str(found["id"])

    async def name(self, user: str) -> str:
        """The name of a user, for the log; the id where the server does not tell."""
        if user not in self._names:
            try:
                name = _map(await self._read(f"users/{user}")).get("username")
            except CallRefused:
                return user
            self._names[user] = clip(name, 64) if isinstance(name, str) and name else user
        return self._names[user]

    async def limit(self) -> int:
        """How many characters a post may have."""
        try:
            said = _map(await self._read("config/client?format=old")).get("MaxPostSize")
            return max(1000, min(DEFAULT_LIMIT, int(str(said))))
        except (CallRefused, ValueError):
            return DEFAULT_LIMIT

    async def channels(self, me: str) -> tuple[Channel, ...]:
        """The channels that the bot is in."""
        found = await self._read(f"users/{me}/channels", lambda value: isinstance(value, list))
        rows = [row for row in found if isinstance(row, dict)]
        return tuple(Channel(row["id"], row.get("type") == "D") for row in rows if is_id(row.get("id")))

    async def page(self, read: Read) -> tuple[tuple[Post, ...], bool]:
        """The posts that a page of a catch-up has, and whether there is another.

        Raises:
            CallRefused: 404, of a post to begin after that is not there any more.

        """
        query = {"after": read.after} if read.after else {}
        posts, rows = await self._rows(read.channel, query, read.page * PAGE, PAGE)
        wanted = tuple(post for post in posts if read.after or post.at >= read.since)
        return wanted, rows >= PAGE and len(wanted) == len(posts)

    async def _rows(self, channel: str, query: dict[str, str], begin: int, count: int) -> tuple[list[Post], int]:
        """The posts of so many rows of a channel's list, and how many rows there were.

        Anybody may write posts of which a page is longer than is read: then it is read in smaller ones.
        """
        place = urlencode({"page": begin // count, "per_page": count, **query})
        try:
            value = await self._read(f"channels/{channel}/posts?{place}", is_post_list)
            return posts_of(value), len(value["order"])
        except CallRefused as refused:
            if not (smaller := _smaller(count, refused)):
                raise
        posts: list[Post] = []
        rows = 0
        for at in range(begin, begin + count, smaller):
            some, found = await self._rows(channel, query, at, smaller)
            posts, rows = [*posts, *some], rows + found
            if found < smaller:
                break
        return posts, rows

    async def thread(self, root: str) -> list[Post]:
        """All posts of a thread, the oldest first."""
        posts: dict[str, Post] = {}
        query: dict[str, Any] = {"perPage": PAGE, "direction": "down"}
        while True:
            try:
                value = await self._read(f"posts/{root}/thread?{urlencode(query)}", is_post_list)
            except CallRefused as refused:
                if not (smaller := _smaller(query["perPage"], refused)):
                    raise
                query["perPage"] = smaller
                continue
            new = [post for post in posts_of(value) if post.id not in posts]
            posts |= {post.id: post for post in new}
            if not new or value.get("has_next") is not True:
                return sorted(posts.values(), key=lambda post: post.place)
            last = max(new, key=lambda post: post.order)
            query |= {"fromCreateAt": last.at, "fromPost": last.id}

    async def post(self, post: str) -> Post | None:
        """A post as it is now."""
        return post_of(await self._read(f"posts/{post}"))

    async def reactions(self, post: str) -> list[dict[str, Any]]:
        """The reactions on a post."""
        found = await self._read(f"posts/{post}/reactions")
        return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []

    async def typing(self, me: str, channel: str, root: str) -> None:
        """Show that an answer is being worked on; once, and whatever comes of it."""
        body = msgspec.json.encode({"channel_id": channel, "parent_id": root})
        try:
            await self.port.ask("POST", f"users/{me}/typing", body)
        except Gone:
            return

    async def create(
        self, session: str, channel: str, root: str, text: str, key: str, files: list[str] | None = None
    ) -> Post:
        """Make a post, asked once.

        Raises:
            Gone: whether it was made is not known.
            CallRefused: it was not made.

        """
        body = {
            "channel_id": channel,
            "root_id": root,
            "message": text,
            "props": {PROP: key},
            # The server makes one post of two requests that name the same, for as long as it remembers.
            "pending_post_id": key,
            **({"file_ids": files} if files else {}),
        }
        reply = await self.port.ask("POST", "posts", msgspec.json.encode(body), session)
        made = post_of(_good(reply))
        if made is None:
            raise Gone("the answer holds no post")
        return made

    async def edit(self, session: str, post: str, text: str) -> None:
        """Give a post of ours another text, asked once; raises as `create`."""
        _good(await self.port.ask("PUT", f"posts/{post}/patch", msgspec.json.encode({"message": text}), session))

    async def upload(self, session: str, channel: str, name: str, data: bytes) -> str:
        """Put a file on the server, asked once; its id; raises as `create`."""
        path = f"files?{urlencode({'channel_id': channel, 'filename': name})}"
        found = _map(_good(await self.port.ask("POST", path, data, session, "text/plain"))).get("file_infos")
        if isinstance(found, list) and found and isinstance(found[0], dict) and is_id(found[0].get("id")):
            return str(found[0]["id"])
        raise CallRefused(200, "no-file", "the answer holds no file")

    async def _read(self, path: str, is_right: Callable[[Any], bool] = lambda _: True) -> Any:
        """Read, tried until it is answered for good."""
        return await self.patiently(lambda: self._once(path, is_right), path)

    def _check(self, right: bool, what: str) -> None:
        if not right:
            raise CallRefused(200, "no-answer", f"the server's answer to {what} is none that can be used")

    async def _once(self, path: str, is_right: Callable[[Any], bool]) -> Any:
        try:
            reply = await self.port.ask("GET", path)
        except TooLong as error:
            raise CallRefused(200, _TOO_LONG, str(error)) from None
        value = _good(reply)
        if not is_right(value):
            # To take it for an empty list would be to pass over what is there.
            raise Passing(reply, "no-answer")
        return value

    async def patiently(self, act: Callable[[], Awaitable[Any]], what: str) -> Any:
        """Do something until it is done, or refused for good."""
        failures = 0
        while True:
            try:
                done = await act()
                self.waiting = None
                return done
            except Gone as gone:
                why, wait_s = str(gone), None
            except Passing as passing:
                why, wait_s = str(passing), passing.wait_s(self.wall())
            if wait_s is None:
                wait_s = rest(failures, self._most_s, random.random())  # noqa: S311  (spreads load, hides nothing)
            failures += 1
            self.waiting = why, waits(what.partition("?")[0], why, wait_s)
            await self._sleep(min(wait_s, self._most_s))


def _smaller(count: int, refused: CallRefused) -> int:
    """How many to ask for instead, 0 when fewer are no help."""
    return (count // 10 or 1) if refused.code == _TOO_LONG and count > 1 else 0


class Passing(Exception):
    """An answer that may be another one soon."""

    def __init__(self, reply: Reply, code: str) -> None:
        super().__init__(f"HTTP {reply.status} {code}".strip())
        self._reply = reply

    def wait_s(self, wall_s: float) -> float | None:
        """How long the server asks to wait, None where it does not."""
        return wait_of(self._reply, wall_s)


def waits(what: str, why: str, wait_s: float) -> str:
    """Say to the log that something is waited for; the runbook's entry: a bad token is the owner's to mend."""
    runbook = "mattermost-refused" if why.startswith("HTTP 401") else "mattermost-unreachable"
    logger().warning("mattermost-waits", what=what, why=why, wait_s=round(wait_s, 2), runbook=runbook)
    return runbook


def wait_of(reply: Reply, wall_s: float) -> float | None:
    """How long an answer asks to wait: Retry-After, or Reset in seconds or as a time since 1970."""
    for name in ("retry-after", "x-ratelimit-reset"):
        try:
            value = float(reply.headers.get(name, ""))
        except ValueError:
            continue
        if value >= 0:
            return max(0.05, value - wall_s) if value > _EPOCH else value
    return None


def is_passing(reply: Reply) -> bool:
    """Whether a refusal may be none soon."""
    code, _ = _error(reply)
    if code in _EGRESS_PASSES:
        return True
    if reply.status in _PAGES and not isinstance(reply.value, dict | list):
        return True
    return reply.status in _PASSES and code not in _EGRESS_ENDS


def _good(reply: Reply) -> Any:
    if 200 <= reply.status < 300 and not is_passing(reply):
        return reply.value
    code, message = _error(reply)
    if is_passing(reply):
        raise Passing(reply, code)
    raise CallRefused(reply.status, code, message)


def _error(reply: Reply) -> tuple[str, str]:
    """The code and the sentence of an error: the server's own id, or after `boxmaker.` one of egressd's."""
    value = _map(reply.value)
    code = clip(str(value.get("id", "")), 100).removeprefix(_OF_EGRESS)
    return code, clip(str(value.get("message", "")), _QUOTED_CHARS)


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
