"""The only place that knows all of egressd: makes its parts, opens its sockets, waits to be ended."""

import os
import resource
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.abc

from egressd.asking import Asking
from egressd.books import Books
from egressd.calls import Calls
from egressd.config import Config
from egressd.contexts import Contexts
from egressd.credentials import Credentials
from egressd.desk.broker import BrokerDesk
from egressd.desk.launcher import LauncherDesk
from egressd.desk.loop import LoopDesk
from egressd.desk.owner import OwnerDesk
from egressd.desk.session import SessionDesk
from egressd.destinations import Destinations
from egressd.doors import Doors
from egressd.fetch import Fetcher
from egressd.flights import Flights
from egressd.mattermost.door import Mattermost
from egressd.mcp.door import Mcp
from egressd.mcp.tools import Tools
from egressd.prices import Prices
from egressd.relay import Relaying
from egressd.spans import Spans, collected
from egressd.store import UsageStore
from egressd.tunnel import Tunnels
from egressd.wire.dial import tls_context
from egressd.wire.warm import Warm
from proto import sockets
from proto.faults import Fault
from proto.role import clock, durable, migration
from proto.role.config import load
from proto.role.listen import listen
from proto.role.main import Arguments, Opening, Ready, home_of, serve_all

_STATE = "state/egressd"


class _Parts(NamedTuple):
    """What the desks are made of."""

    destinations: Destinations
    credentials: Credentials
    flights: Flights
    asking: Asking
    store: UsageStore
    books: Books
    contexts: Contexts
    warm: Warm
    calls: Calls
    fetcher: Fetcher
    tunnels: Tunnels
    mcp: Mcp
    mattermost: Mattermost
    owner: OwnerDesk


async def run(arguments: Arguments, ready: Ready) -> None:
    """Run until cancelled."""
    config = load(arguments.config, Config) if arguments.config else Config()
    home = home_of(arguments, config.paths.home)
    state = _made(home / _STATE)
    _take_files()
    with (
        migration.held(home, "egressd"),
        collected(sockets.socket("spans-egress").at(home), config.traces, os.environ) as spans,
    ):
        store = UsageStore(state)
        try:
            store.settle_left(clock.stamp(clock.now()))
            parts = _parts(config, home, store)
            try:
                await _serve(config, home, parts, spans, ready)
            finally:
                parts.contexts.close()
        finally:
            store.close()


async def _serve(config: Config, home: Path, parts: _Parts, spans: Spans | None, ready: Ready) -> None:
    state = home / _STATE
    loop = LoopDesk(sockets.socket("loop-egress").path, parts.calls, parts.mattermost, config.relay, state)
    session = SessionDesk(
        calls=parts.calls,
        tunnels=parts.tunnels,
        mcp=parts.mcp,
        limits=config.relay,
        session=config.session,
        spool_folder=state,
    )
    async with anyio.create_task_group() as tasks:
        doors = Doors(home, state, tasks, session.enter)
        listening = listen(_at(home, config.sockets.loop, "loop-egress"))
        serve_all(tasks, _openings(config, home, parts, doors))
        # The sockets of the daemon come first: a second egressd ends there, and touches no session's.
        doors.reopen()
        tasks.start_soon(loop.serve, listening)
        tasks.start_soon(parts.mcp.run)
        tasks.start_soon(parts.asking.run)
        tasks.start_soon(parts.books.run)
        tasks.start_soon(parts.contexts.run)
        tasks.start_soon(parts.warm.run)
        if spans is not None:
            tasks.start_soon(spans.receive)
        ready()
        await anyio.sleep_forever()


def _parts(config: Config, home: Path, store: UsageStore) -> _Parts:
    tls = tls_context(config.tls.ca_file)
    credentials, flights = Credentials(home, os.environ), Flights()
    destinations = Destinations(home, credentials.variable)
    prices = Prices(home)
    books = Books(
        store=store,
        prices=prices,
        destinations=destinations,
        room_s=config.relay.room_s,
        clock=clock.now,
    )
    ask = Asking(_at(home, config.sockets.decisions, "egress-broker", "broker.sock"), config.relay)
    relaying = Relaying(config.relay, destinations, tls, flights, ask, Warm(config.relay.warm_s))
    tunnels = Tunnels(
        limits=config.tunnel,
        destinations=destinations,
        flights=flights,
        ask=ask,
        booking=books.tunnels,
        clock=clock.now,
    )
    contexts = Contexts(
        folder=home / _STATE / "outbox",
        socket=_at(home, config.sockets.contexts, "egress-memory"),
        limits=config.contexts,
        retention_days=destinations.retention_days,
        turns=store.calls_of,
        clock=clock.now,
    )
    tools = Tools(_at(home, config.sockets.tools, "egress-broker", "tools.sock"), config.session.tool_s, clock.now)
    return _Parts(
        destinations=destinations,
        credentials=credentials,
        flights=flights,
        asking=ask,
        store=store,
        books=books,
        contexts=contexts,
        warm=relaying.warm,
        calls=Calls(credentials, books, relaying, contexts),
        fetcher=Fetcher(config.fetch, tls),
        tunnels=tunnels,
        mcp=Mcp(tools, config.session),
        mattermost=Mattermost(credentials, relaying, config.mattermost),
        owner=OwnerDesk(credentials, store, prices, relaying, home),
    )


def _openings(config: Config, home: Path, parts: _Parts, doors: Doors) -> list[Opening]:
    desks = (
        ("broker-egress", config.sockets.broker, BrokerDesk(parts.fetcher, parts.flights)),
        (
            "launcher-egress",
            config.sockets.launcher,
            LauncherDesk(doors, parts.destinations, parts.tunnels.close, parts.books.harness),
        ),
        ("owner-egress", config.sockets.admin, parts.owner),
    )
    return [Opening(sockets.socket(name), _at(home, configured, name), desk) for name, configured, desk in desks]


def _at(home: Path, configured: str | None, name: str, file: str | None = None) -> Path:
    return Path(configured) if configured else sockets.socket(name, file).at(home)


def _made(folder: Path) -> Path:
    try:
        durable.make_folder(folder)
    except OSError as error:
        raise Fault("egressd-start-failed", f"{folder}: {error.strerror}") from None
    return folder


def _take_files() -> None:
    """As many open files as may be: a call has up to four, and a thousand may be under way."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
