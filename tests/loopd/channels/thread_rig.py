"""loopd with a Mattermost for a test: in this process, over real sockets, a fake server, and a scripted model."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from loopd.channels.mattermost.ledger import Kept
from proto.sockets import socket
from tests.fakes.brokerd import FakeBrokerd
from tests.fakes.gateway import Gateway
from tests.fakes.mattermost import FakeMattermost
from tests.fakes.memory_block import FakeMemory
from tests.fakes.model import FakeModel, Reply
from tests.loopd.rig import Rig, World, loopd, until

Map = dict[str, Any]
CONFIG = """
[mattermost]
enabled = true
owner = "@owner"
"""
PACE = """
edit_every_s = 0.02
reconnect_most_s = 0.2
ping_s = 5
"""


class Threads(NamedTuple):
    """The world around loopd."""

    world: World
    server: FakeMattermost
    gateway: Gateway

    @property
    def model(self) -> FakeModel:
        """The scripted model."""
        return self.world.model

    @property
    def broker(self) -> FakeBrokerd:
        """The fake brokerd."""
        return self.world.broker

    def said(self, channel: Map, root: Map | None = None) -> list[str]:
        """What the bot's posts say."""
        posts = self.server.posts(channel, root)
        return [post["message"] for post in posts if post["user_id"] == self.server.bot["id"]]

    async def shown(self, channel: Map, *texts: str, root: Map | None = None) -> None:
        """Wait until the bot's posts are these; the last may still be a draft."""
        await until(lambda: self.said(channel, root) == list(texts))

    async def answered(self, channel: Map, *texts: str, root: Map | None = None) -> None:
        """Wait until the bot's posts are these, and what they answer is done with: a loopd that ends repeats nothing."""
        await self.shown(channel, *texts, root=root)
        # A thread's posts are its answers: the first one is not among them.
        posts = [*([root] if root else []), *self.server.posts(channel, root)]
        await self.done(*(post for post in posts if post["user_id"] == self.server.owner["id"]))

    async def says(self, channel: Map, text: str, root: Map) -> None:
        """Wait until a post of the bot's in a thread is a text."""
        await until(lambda: text in self.said(channel, root))

    async def asks(self, channel: Map, root: Map) -> None:
        """Wait until the owner is asked in a thread about a call of recall."""
        await until(lambda: any("recall?" in text for text in self.said(channel, root)))

    async def done(self, *posts: Map) -> None:
        """Wait until loopd is done with posts: its file of their channel says so."""
        await until(lambda: all(map(self._is_done, posts)))

    def _is_done(self, post: Map) -> bool:
        path = self.world.home / "state/loopd/mattermost/channels" / f"{post['channel_id']}.json"
        kept = msgspec.json.decode(path.read_bytes(), type=Kept) if path.exists() else Kept()
        return post["id"] in kept.done or (post["create_at"], post["id"]) <= (kept.at, kept.post)

    def log(self, root: Map) -> list[Map]:
        """The records of a thread's session."""
        return self.world.log(f"mm-{root['id']}")


@contextmanager
def threads(
    home: Path, script: list[Reply] | None = None, config: str = "", pace: str = PACE, **rows: Any
) -> Iterator[Threads]:
    """The fakes at a home's sockets, and a loopd.toml."""
    (home / "config").mkdir(exist_ok=True)
    (home / "config" / "loopd.toml").write_text(CONFIG + pace + config)
    with (
        FakeMattermost() as server,
        FakeMemory(home) as memory,
        FakeBrokerd(home) as broker,
        FakeModel(script, home / "m.sock", **rows) as model,
        Gateway(socket("loop-egress").at(home), server.url, server.bot_token, home / "m.sock") as gateway,
    ):
        yield Threads(World(home, memory, broker, model), server, gateway)


@asynccontextmanager
async def linked(outside: Threads) -> AsyncIterator[Rig]:
    """A running loopd whose WebSocket is there."""
    async with loopd(outside.world.home) as rig:
        await until(lambda: outside.server.connected > 0)
        yield rig
