"""Fakes of the daemons behind the owner sockets, over real sockets, in a thread of the test.

Features: an answer for each kind of request (a message, a list of messages for a stream, a Fault, or a function of the
request and the connection); what was asked is kept in order; a daemon that was given no answer is not there.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import msgspec

from bxctl.places import OWNER_ROWS
from proto import sockets
from proto.faults import Fault
from proto.role.listen import listen
from proto.role.serve import Connection, Server

Answer = Any


class Fakes:
    """The fake daemons of one home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.asked: list[Any] = []
        self._answers: dict[tuple[str, type[msgspec.Struct]], Answer] = {}
        self._paths: dict[str, Path] = {}

    def answer(self, row: str, request: type[msgspec.Struct], answer: Answer, *, at: Path | None = None) -> "Fakes":
        """What a daemon answers to a kind of request; `at` is its socket when it is not the home's own."""
        self._answers[row, request] = answer
        self._paths[row] = at or self._paths.get(row) or sockets.socket(row).at(self.home)
        return self

    def up(self, *rows: str) -> "Fakes":
        """Daemons that answer a ping and nothing else."""
        for row in rows or OWNER_ROWS:
            self._paths.setdefault(row, sockets.socket(row).at(self.home))
        return self

    @contextmanager
    def serving(self) -> Iterator["Fakes"]:
        """The sockets accept inside the block."""
        with anyio.from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(self._served()):
            yield self

    def one(self, kind: type[msgspec.Struct]) -> Any:
        """The one request of a kind that was asked."""
        (found,) = [request for request in self.asked if isinstance(request, kind)]
        return found

    @asynccontextmanager
    async def _served(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            for row, path in self._paths.items():
                tasks.start_soon(Server(row, sockets.socket(row).answers, self._desk(row)).serve, listen(path))
            yield
            tasks.cancel_scope.cancel()

    def _desk(self, row: str) -> Any:
        async def desk(request: Any, connection: Connection) -> msgspec.Struct:
            self.asked.append(request)
            answer = self._answers.get((row, type(request)))
            if answer is None:
                raise Fault("internal", f"the fake {row} was given no answer to {type(request).__name__}")
            if callable(answer) and not isinstance(answer, msgspec.Struct):
                answer = await answer(request, connection)
            if isinstance(answer, Fault):
                raise answer
            if isinstance(answer, list):
                for event in answer[:-1]:
                    await connection.send(event)
                answer = answer[-1]
            reply: msgspec.Struct = answer
            return reply

        return desk
