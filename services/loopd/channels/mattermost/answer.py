"""Puts an answer into its thread: does what `growing` says, and never makes a post twice.

Where it is not known whether a post was made, the thread is searched for our mark before it is made again.
"""

import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

import anyio

from loopd.channels.mattermost.growing import Create, Edit, Growing
from loopd.channels.mattermost.link import rest
from loopd.channels.mattermost.server import CallRefused, Passing, Server, waits
from loopd.ports.mattermost import Gone
from proto.role.log import logger

_MOST_FILES: Final = 5
T = TypeVar("T")


class Place(NamedTuple):
    """Where a turn's posts go. `turn` is the id of the post that it answers."""

    session: str
    turn: str
    channel: str
    root: str

    def key(self, part: int | str) -> str:
        """The mark of a post."""
        return f"{self.session}/{self.turn}/{part}"


class Made(NamedTuple):
    """A post of a turn that stands in its thread: its id, its time, and the text that it has."""

    id: str
    at: int
    text: str


class Poster:
    """Makes and changes the posts of one turn. `posts` are the ids of those that were made."""

    def __init__(self, server: Server, me: str, place: Place, most_s: float) -> None:
        self.posts: set[str] = set()
        self._server = server
        self._me = me
        self._place = place
        self._most_s = most_s

    async def found(self) -> dict[str, Made]:
        """The posts of this turn that are in the thread, by their parts."""
        prefix = self._place.key("")
        posts = await self._server.thread(self._place.root)
        mine = [post for post in posts if post.user == self._me and not post.deleted and post.key.startswith(prefix)]
        self.posts |= {post.id for post in mine}
        return {post.key.removeprefix(prefix): Made(post.id, post.at, post.text) for post in mine}

    async def make(self, part: int | str, text: str, files: list[str] | None = None, *, search: bool = False) -> Made:
        """Make a post, once whatever happens; one that a `search` finds may have another text.

        Raises:
            CallRefused: it will not be taken.

        """
        failures = 0
        while True:
            if search and (there := (await self.found()).get(str(part))):
                return there
            try:
                place = self._place
                post = await self._server.create(place.session, place.channel, place.root, text, place.key(part), files)
            except (Gone, Passing) as error:
                search = True
                await self.wait(error, failures)
                failures += 1
            else:
                self.posts.add(post.id)
                return Made(post.id, post.at, text)

    async def change(self, post: str, text: str) -> None:
        """Change a post, tried until it is taken or refused (`CallRefused`)."""
        await self._patient(lambda: self._server.edit(self._place.session, post, text))

    async def upload(self, name: str, data: bytes) -> str:
        """Put a file on the server; its id. Raises as `make`."""
        return await self._patient(lambda: self._server.upload(self._place.session, self._place.channel, name, data))

    async def _patient(self, act: Callable[[], Awaitable[T]]) -> T:
        failures = 0
        while True:
            try:
                return await act()
            except (Gone, Passing) as error:
                await self.wait(error, failures)
                failures += 1

    async def wait(self, error: Gone | Passing, failures: int) -> None:
        """Wait as long as the server asks, or a while that grows."""
        asked_s = error.wait_s(time.time()) if isinstance(error, Passing) else None
        wait_s = rest(failures, self._most_s, random.random()) if asked_s is None else asked_s  # noqa: S311  (no secret)
        waits(self._place.key(""), str(error), wait_s)
        await anyio.sleep(min(wait_s, self._most_s))


class Answer:
    """The posts of an answer, from its first words to its final form."""

    def __init__(self, poster: Poster, growing: Growing) -> None:
        self.growing = growing
        self.search = True
        """Whether the thread may hold a post of this answer that is not known here."""
        self._poster = poster
        self._changed = anyio.Event()
        self._ended = anyio.Event()

    def say(self, words: str) -> None:
        """More words of the model."""
        self.growing.say(words)
        self._changed.set()

    def do(self, tool: str) -> None:
        """A tool runs."""
        self.growing.do(tool)
        self._changed.set()

    def end(self, text: str) -> None:
        """The final form, once."""
        self.growing.end(text)
        self._changed.set()
        self._ended.set()

    async def recover(self) -> dict[str, Made]:
        """Take over what is in the thread of this answer already; the turn's other posts, by their parts."""
        others = {}
        for part, post in (await self._poster.found()).items():
            if part.isdigit():
                self.growing.found(int(part), post.id, post.text)
            else:
                others[part] = post
        self.search = False
        return others

    async def run(self) -> bool:
        """Keep the thread as the answer is, until its final form stands there; whether it does."""
        while not self.growing.is_over:
            step = self.growing.next()
            if step is None:
                await self._changed.wait()
                self._changed = anyio.Event()
                continue
            if wait_s := self.growing.wait_s(anyio.current_time()):
                with anyio.move_on_after(wait_s):
                    await self._ended.wait()
                continue
            try:
                await self._do(step)
            except CallRefused as refused:
                if isinstance(step, Edit) and not self.growing.is_stuck:
                    # The server lets posts be edited for a while only, or somebody has deleted it.
                    logger().warning("mattermost-not-edited", why=str(refused))
                    self.growing.stuck()
                    continue
                logger().error("mattermost-not-posted", why=str(refused), runbook="mattermost-not-posted")
                return False
        return True

    async def _do(self, step: Create | Edit) -> None:
        if isinstance(step, Create):
            made = await self._poster.make(step.part, step.text, search=self.search)
            # One that was there already has the words that a draft had then.
            self.growing.made(step._replace(text=made.text), made.id, anyio.current_time())
        else:
            await self._poster.change(step.post, step.text)
            self.growing.made(step, step.post, anyio.current_time())


async def outputs(poster: Poster, files: list[tuple[str, str]]) -> None:
    """Put tools' outputs into the thread as files, each a name and a text; what is refused is left out."""
    try:
        there = await poster.found()
    except CallRefused as refused:
        # The thread was deleted meanwhile.
        logger().error("mattermost-not-posted", why=str(refused), runbook="mattermost-not-posted")
        return
    for begin in range(0, len(files), _MOST_FILES):
        part = f"files-{begin // _MOST_FILES + 1}"
        if part in there:
            continue
        some = files[begin : begin + _MOST_FILES]
        try:
            ids = [await poster.upload(name, text.encode()) for name, text in some]
            await poster.make(part, "", ids)
        except CallRefused as refused:
            logger().error("mattermost-not-posted", why=str(refused), runbook="mattermost-not-posted")
