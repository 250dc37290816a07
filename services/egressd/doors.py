"""The doors that are open: each session's own socket, `run/sessions/<id>/egress.sock`, and who stands behind it.

A door outlives egressd: it is kept in `state/egressd/sessions/<id>.json`, on disk before it is said to be open, and the
next egressd opens it again. A call in flight when its door closes goes on to its end.
"""

import contextlib
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import msgspec

from proto.faults import Fault
from proto.ids import DestinationName, SessionId
from proto.role import durable
from proto.role.listen import linked, listen
from proto.role.log import logger
from proto.role.pool import Pool
from proto.role.raw import Raw
from proto.role.serve import next_client
from proto.rules import Auth

_SUFFIX: Final = ".json"
_FILE: Final = "egress.sock"


class Door(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose door it is, where its calls go and how they are authorised; `harness` is the program's short name."""

    session: SessionId
    destination: DestinationName
    auth: Auth
    harness: str | None


Enter = Callable[["Standing", Raw], Awaitable[None]]
"""Serves one connection that came in by a door; closes it."""


class Standing:
    """An open door: `closed` once it lets nobody in any more, `inside` are the connections that came in by it."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.closed = False
        self.inside = 0
        self.accepting = anyio.CancelScope()


class Doors:
    """Opens doors and closes them."""

    def __init__(self, home: Path, state: Path, tasks: anyio.abc.TaskGroup, enter: Enter) -> None:
        """`state` is a folder of egressd's own; what comes in by a door runs in `tasks`."""
        self._home = home
        self._folder = state / "sessions"
        self._tasks = tasks
        self._clients = Pool(tasks, self._inside)
        self._enter = enter
        self._standing: dict[str, Standing] = {}

    def find(self, session: str) -> Door | None:
        """The open door of a session."""
        standing = self._standing.get(session)
        return standing.door if standing else None

    def path(self, session: str) -> Path:
        """Where the socket of a session is."""
        return self._home / "run" / "sessions" / session / _FILE

    def open(self, door: Door) -> Path:
        """Open a door; its socket accepts, and it is on disk. The same door once more is answered again.

        Raises:
            Fault: `session-exists`: another door of the session is open; `socket-path-too-long`, `socket-in-use`,
                `socket-not-ours`.

        """
        standing = self._standing.get(door.session)
        if standing is None:
            self._stand(door)
            try:
                durable.replace(self._kept(door.session), msgspec.json.encode(door))
            except OSError:
                self.close(door.session)
                raise
        elif standing.door != door:
            raise Fault("session-exists", "the session's socket is open already, with another destination or auth")
        return self.path(door.session)

    def close(self, session: str) -> None:
        """Close a door, if it is open: nobody comes in any more, and the socket is gone."""
        standing = self._standing.pop(session, None)
        if standing is not None:
            standing.closed = True
            standing.accepting.cancel()
        # Where this failed before, asking once more puts it right.
        if self._kept(session).exists():
            self._kept(session).unlink()
            durable.sync_folder(self._folder)
        _remove(self.path(session))

    def reopen(self) -> None:
        """Open what was open when egressd ended. One that cannot be opened is left out, and the log says why."""
        durable.make_folder(self._folder)
        durable.sweep_temporaries(self._folder)
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            session = path.name.removesuffix(_SUFFIX)
            try:
                door = msgspec.json.decode(path.read_bytes(), type=Door)
                if door.session != session:
                    raise ValueError("the file is another session's")
                self._stand(door)
            except (OSError, ValueError, Fault) as error:
                logger().error("session-not-reopened", session=session, reason=str(error))

    def _stand(self, door: Door) -> None:
        path = self.path(door.session)
        if path.parent.is_symlink():
            raise linked(path.parent)
        listening = listen(path)
        standing = self._standing[door.session] = Standing(door)
        self._tasks.start_soon(self._accept, standing, listening)

    async def _accept(self, standing: Standing, listening: socket.socket) -> None:
        with standing.accepting, listening:
            while True:
                stream = await next_client(listening, standing.door.session)
                self._clients.start(standing, stream)

    async def _inside(self, standing: Standing, stream: Raw) -> None:
        standing.inside += 1
        try:
            await self._enter(standing, stream)
        finally:
            standing.inside -= 1

    def _kept(self, session: str) -> Path:
        return self._folder / f"{session}{_SUFFIX}"


def _remove(path: Path) -> None:
    """Take away a socket, the lock beside it and their folder; what another has put there stays."""
    if path.parent.is_symlink():
        return
    with contextlib.suppress(OSError):
        if path.is_socket():
            path.unlink()
        path.with_name(f".{path.name}.lock").unlink(missing_ok=True)
        path.parent.rmdir()
