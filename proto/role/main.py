"""A daemon's command line and life: `<daemon> serve --config PATH [--home PATH]`, ready when its sockets accept.

SIGTERM and SIGINT end it with exit code 0; a fault at start ends it with 1, its sentence and its runbook entry.
"""

import argparse
import ctypes
import gc
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import anyio.abc
from anyio.abc import TaskStatus

from proto.faults import Fault
from proto.home import default_home
from proto.role import durable, listen, log, ready
from proto.role.loop import Loop
from proto.role.serve import Desk, Server
from proto.sockets import Socket

_PR_SET_DUMPABLE: Final = 4
_YOUNG: Final = 10_000
"""New objects after which the collector looks for cycles: fifty calls at once make thousands that stay for a moment."""
_TELLINGS: Final = 3
"""Within the time that the supervisor waits: one may be late."""


class Arguments(NamedTuple):
    """What the command line says: the configuration file, if one is there, and `--home`, if given."""

    config: Path | None
    home: str | None


class Opening(NamedTuple):
    """A socket to open: its row, where it is in this configuration, and the desk that answers on it."""

    row: Socket
    path: Path
    desk: Desk


Ready = Callable[[], None]
Run = Callable[[Arguments, Ready], Awaitable[None]]
"""Runs a daemon until it is cancelled; calls `Ready` once its sockets accept."""


def main(daemon: str, about: str, run: Run) -> int:
    """The entry point of a daemon; its exit code."""
    arguments = _parse(daemon, about)
    harden()
    logger = log.start(daemon, os.environ.get("BOXMAKER_LOG", "info"))
    try:
        anyio.run(_life, run, arguments, backend_options={"loop_factory": Loop})
    except Fault as fault:
        # The sentence is the whole story: no traceback.
        logger.error("start-failed", code=fault.code, message=str(fault), runbook=fault.runbook)  # noqa: TRY400
        return 1
    logger.info("stopped")
    return 0


def _parse(daemon: str, about: str) -> Arguments:
    parser = argparse.ArgumentParser(prog=daemon, description=about, epilog=f"example: {daemon} serve --home ~/box")
    verbs = parser.add_subparsers(dest="verb", required=True)
    serve = verbs.add_parser("serve", help="run until SIGTERM", description=about)
    serve.add_argument("--config", type=Path, help="the TOML file of settings; every setting has a default")
    serve.add_argument("--home", help="the box's home; default $BOXMAKER_HOME, then /var/lib/boxmaker")
    parsed = parser.parse_args()
    return Arguments(config=parsed.config, home=parsed.home)


def harden() -> None:
    """No file of a daemon is for others, and no process of the same uid reads its memory."""
    os.umask(0o077)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


async def _life(run: Run, arguments: Arguments) -> None:
    failed: Fault | None = None
    async with anyio.create_task_group() as tasks:
        await tasks.start(_cancel_on_signal, tasks.cancel_scope)
        if (within_s := ready.watchdog_s()) is not None:
            tasks.start_soon(_tell_alive, within_s)
        try:
            await run(arguments, _say_ready)
        except* Fault as group:
            failed = _first(group)
        finally:
            ready.notify("STOPPING=1")
            tasks.cancel_scope.cancel()
    if failed is not None:
        # Raised out here: a task group would wrap it.
        raise failed


def _first(group: BaseExceptionGroup[Fault]) -> Fault:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Fault)  # noqa: S101  (except* gave nothing else)
    return error


async def _cancel_on_signal(scope: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            break
    for number in (signal.SIGTERM, signal.SIGINT):
        # A second one must not end what the first began to finish.
        signal.signal(number, signal.SIG_IGN)
    scope.cancel()


async def _tell_alive(within_s: float) -> None:
    """Tell the supervisor, often enough, that the loop turns; where it does not, the daemon is killed and restarted."""
    while True:
        ready.notify("WATCHDOG=1")
        await anyio.sleep(within_s / _TELLINGS)


def _say_ready() -> None:
    # What the modules made stays as long as the daemon: the collector need not look through it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)
    log.logger().info("ready")
    ready.notify("READY=1")


def open_sockets(openings: list[Opening]) -> list[tuple[Opening, socket.socket]]:
    """Bind every socket of a daemon, or none."""
    bound: list[tuple[Opening, socket.socket]] = []
    try:
        bound.extend((opening, listen.listen(opening.path)) for opening in openings)
    except Fault:
        for _, listening in bound:
            listening.close()
        raise
    return bound


def serve_all(tasks: anyio.abc.TaskGroup, openings: list[Opening]) -> None:
    """Bind the framed sockets of a daemon and serve them in a task group."""
    for opening, listening in open_sockets(openings):
        tasks.start_soon(Server(opening.row.path, opening.row.answers, opening.desk).serve, listening)


def home_of(arguments: Arguments, configured: str | None) -> Path:
    """The home: the command line, then the configuration, then the environment; made 0700 when missing."""
    home = default_home(arguments.home or configured, os.environ)
    try:
        durable.make_folder(home)
    except OSError as error:
        raise Fault("start-failed", f"{home}: {error.strerror}") from None
    return home
