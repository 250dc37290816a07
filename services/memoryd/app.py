"""memoryd put together: its holdings opened and settled, its desks on their sockets, until it is told to stop."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.from_thread
import anyio.to_thread

from memoryd import files
from memoryd.config import Config
from memoryd.desk.broker import BrokerDesk
from memoryd.desk.context import ContextDesk
from memoryd.desk.indexing import Indexing
from memoryd.desk.keeping import Keeping
from memoryd.desk.loop import LoopDesk
from memoryd.desk.owner import OwnerDesk
from memoryd.desk.turns import Turns
from memoryd.files import Unreadable
from memoryd.gate.check import check_of
from memoryd.holdings import Holdings
from memoryd.identity.entries import SOUL_NAME
from memoryd.identity.journal import Breathe
from memoryd.identity.shelf import Shelf
from memoryd.identity.writer import Writer
from memoryd.index import Index
from memoryd.kept import Holding, Inbox
from memoryd.trail.answers import Answers
from memoryd.trail.recalls import Recalls
from proto import sockets
from proto.faults import Fault
from proto.role import clock, config, durable, migration, trace
from proto.role.log import logger
from proto.role.main import Arguments, Opening, Ready, home_of, serve_all

_INDEX_FILE: Final = "memory.sqlite3"


async def run(arguments: Arguments, ready: Ready) -> None:
    """Run until cancelled.

    Raises:
        Fault: it cannot start: `config-invalid`, `memoryd-start-failed`, `socket-in-use` and the like.

    """
    settings = config.load(arguments.config, Config) if arguments.config else Config()
    home = home_of(arguments, settings.paths.home)
    trace.start("memoryd", trace.Datagrams(sockets.socket("spans-egress").at(home)))
    with _only_one(home), migration.held(home, "memoryd"):
        with _start_fault():
            soul = starter(arguments.config, settings)
            # A long journal takes a while to check, and who is told to stop meanwhile stops.
            holdings = await anyio.to_thread.run_sync(
                open_holdings, home, settings, soul, anyio.from_thread.check_cancelled
            )
        try:
            await _serve(holdings, home, settings, ready)
        finally:
            holdings.index.close()


async def _serve(holdings: Holdings, home: Path, settings: Config, ready: Ready) -> None:
    turns, indexing, keeping = Turns(), Indexing(holdings), Keeping(holdings, clock.now)
    desks = (
        ("loop-memory", settings.sockets.loop, LoopDesk(holdings, turns, indexing).answer),
        ("broker-memory", settings.sockets.broker, BrokerDesk(holdings, turns, indexing).answer),
        ("owner-memory", settings.sockets.admin, OwnerDesk(holdings, turns, indexing, keeping, home).answer),
        ("egress-memory", settings.sockets.context, ContextDesk(holdings, keeping).answer),
    )
    openings = []
    for name, configured, desk in desks:
        row = sockets.socket(name)
        openings.append(Opening(row, Path(configured).expanduser() if configured else row.at(home), desk))
    async with anyio.create_task_group() as tasks:
        serve_all(tasks, openings)
        tasks.start_soon(indexing.run)
        tasks.start_soon(keeping.run)
        ready()
        await anyio.sleep_forever()


def open_holdings(home: Path, settings: Config, soul: bytes, breathe: Breathe = lambda: None) -> Holdings:
    """The holdings of a home, what a crash left settled and what a hand changed found. `breathe` may end it midway:
    whatever is done by then is whole.

    Raises:
        OSError: a folder cannot be used.
        Unreadable: what memoryd keeps for itself cannot be used.
        Fault: `memory-unavailable`.

    """
    memory, state, index = home / "memory", home / "state" / "memoryd", home / "index"
    record = home / "record"
    durable.make_folder(state)
    durable.make_folder(index)
    shelf = Shelf(memory, state, clock.now)
    shelf.open(soul, breathe)
    writer = Writer(shelf)
    writer.settle()
    for left in [*durable.sweep_temporaries(memory), *durable.sweep_temporaries(state)]:
        logger().info("temporary-file-removed", path=str(left))
    files.prove_exchange(memory)
    writer.look()
    holdings = Holdings(
        shelf=shelf,
        writer=writer,
        check=check_of(allow_joiners=settings.check.allow_joiners),
        review=settings.memory.review,
        index=Index(
            str(index / _INDEX_FILE), max_class=settings.index.max_class, untrusted_mode=settings.recall.untrusted
        ),
        sessions=str(home / "sessions"),
        recalls=Recalls(memory / "recalls", clock.now),
        answers=Answers(state / "answers.jsonl"),
        kept=Holding(record),
        inbox=Inbox(record),
    )
    for torn in holdings.recalls.open():
        logger().warning("torn-line-cut", path=str(torn.path), bytes_cut=torn.bytes_cut)
    holdings.answers.open()
    holdings.kept.open()
    if left_over := holdings.inbox.open():
        logger().info("unfinished-items-removed", files=left_over)
    return holdings


def starter(config_file: Path | None, settings: Config) -> bytes:
    """What soul.md starts as: the file that the configuration names, or memoryd's own.

    Raises:
        OSError: the named file is there and cannot be read.

    """
    if config_file is not None:
        named = config_file.parent / Path(settings.memory.soul_starter).expanduser()
        if named.exists():
            return named.read_bytes()
    return Path(__file__).with_name(SOUL_NAME).read_bytes()


@contextmanager
def _start_fault() -> Iterator[None]:
    """What the disk refuses at start becomes the daemon's own fault."""
    try:
        yield
    except (OSError, Unreadable) as error:
        raise Fault("memoryd-start-failed", f"memory/, record/, index/ or state/ cannot be used: {error}") from None


@contextmanager
def _only_one(home: Path) -> Iterator[None]:
    """Two daemons must not settle one home at once; the lock is the process's and goes with it."""
    state = home / "state" / "memoryd"
    with _start_fault():
        durable.make_folder(state)
        handle = os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Fault("socket-in-use", f"another memoryd already serves {home}") from None
    finally:
        os.close(handle)
