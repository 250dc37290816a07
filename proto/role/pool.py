"""Tasks that serve one client after another: to begin one of anyio's costs as much as a short exchange does.

Laws (tested):

1. Each client is served once, as soon as it is there, in a task that serves nobody else meanwhile; with no trace of the
   one before.
2. What is raised ends the group of the tasks, as with any task in it.
3. Few tasks are kept that serve nobody, and none of them holds anything of a client's.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVarTuple

import anyio.abc

from proto.role import trace

_MOST_IDLE: Final = 64
_Client = TypeVarTuple("_Client")


class Pool(Generic[*_Client]):
    """Serves clients in tasks of a group."""

    def __init__(self, tasks: anyio.abc.TaskGroup, serve: Callable[[*_Client], Awaitable[None]]) -> None:
        self._tasks = tasks
        self._serve = serve
        self._idle: list[asyncio.Future[tuple[*_Client]]] = []

    def start(self, *client: *_Client) -> None:
        """Serve a client, from the next turn of the loop on."""
        while self._idle:
            waiting = self._idle.pop()
            # One whose task was cancelled waits no more.
            if not waiting.done():
                waiting.set_result(client)
                return
        self._tasks.start_soon(self._serve_all, client)

    async def _serve_all(self, client: tuple[*_Client]) -> None:
        while True:
            trace.follow(None)
            await self._serve(*client)
            del client
            if len(self._idle) >= _MOST_IDLE:
                return
            waiting: asyncio.Future[tuple[*_Client]] = asyncio.get_running_loop().create_future()
            self._idle.append(waiting)
            client = await waiting
            del waiting
