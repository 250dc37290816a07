"""loopd for a test: in this process over real sockets, between a fake memoryd, a fake brokerd and a scripted model.

Features: say something and collect the events; begin a turn and look at it while it is under way; stop loopd and start
it again on the same home.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

from loopd import app
from proto.messages import loop
from proto.role.call import call, stream
from proto.role.main import Arguments
from proto.sockets import socket
from tests.fakes.brokerd import FakeBrokerd
from tests.fakes.memory_block import FakeMemory
from tests.fakes.model import FakeModel, Reply

EVENTS = (
    loop.ChatOpened,
    loop.ChatDelta,
    loop.ChatTool,
    loop.ChatApproval,
    loop.ChatLabel,
    loop.ChatDone,
    loop.ChatFailed,
)


class World(NamedTuple):
    """The home, and the daemons beside loopd."""

    home: Path
    memory: FakeMemory
    broker: FakeBrokerd
    model: FakeModel

    def log(self, session: str) -> list[dict[str, Any]]:
        """The records of a session without their times."""
        path = self.home / "sessions" / session / "0.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [{name: value for name, value in line.items() if name != "time"} for line in lines]


@contextmanager
def world(home: Path, script: list[Reply] | None = None, config: str = "") -> Iterator[World]:
    """The fakes at the sockets of a home, and a loopd.toml."""
    (home / "config").mkdir(exist_ok=True)
    (home / "config" / "loopd.toml").write_text(config)
    with (
        FakeMemory(home) as memory,
        FakeBrokerd(home) as broker,
        FakeModel(script, socket("loop-egress").at(home)) as model,
    ):
        yield World(home, memory, broker, model)


@asynccontextmanager
async def loopd(home: Path) -> AsyncIterator["Rig"]:
    """A running loopd; leaving the block ends it as SIGTERM does."""
    ready = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app.run, Arguments(home / "config" / "loopd.toml", str(home)), ready.set)
        await ready.wait()
        yield Rig(home)
        tasks.cancel_scope.cancel()


class Rig:
    """A client of the owner's socket."""

    def __init__(self, home: Path) -> None:
        self.path = socket("owner-loop").at(home)

    async def ask(self, request: msgspec.Struct, *replies: type[msgspec.Struct]) -> Any:
        """The one reply."""
        return await call(self.path, request, *replies)

    async def chat(self, text: str, session: str | None = None) -> list[Any]:
        """The events of a turn."""
        async with self.turn(text, session) as events:
            return [event async for event in events]

    async def idle(self, session: str) -> None:
        """Wait until no turn of the session is under way: its last record is written a little before."""
        with anyio.fail_after(10):
            while await self._busy(session):  # noqa: ASYNC110  (loopd sets no event of ours)
                await anyio.sleep(0.01)

    async def _busy(self, session: str) -> bool:
        known = (await self.ask(loop.Sessions(), loop.SessionsReply)).sessions
        return (session, "busy") in [(row.session, row.state) for row in known]

    @asynccontextmanager
    async def turn(self, text: str, session: str | None = None) -> AsyncIterator[AsyncIterator[Any]]:
        """A turn under way; leaving the block goes away as a client does."""
        async with stream(self.path, loop.Chat(session=session, text=text), *EVENTS) as events:
            yield events


async def until(ready: Callable[[], bool]) -> None:
    """Wait for what another process or thread does."""
    with anyio.fail_after(10):
        while not ready():  # noqa: ASYNC110  (what is waited for sets no event of ours)
            await anyio.sleep(0.01)


def of(kind: type[msgspec.Struct], events: list[Any]) -> list[Any]:
    """The events of a kind."""
    return [event for event in events if isinstance(event, kind)]
