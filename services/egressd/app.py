"""The only place that knows all of egressd: makes its parts, opens its sockets, waits to be ended."""

import os
from pathlib import Path

import anyio

from egressd.asking import Asking
from egressd.books import PlainBooks
from egressd.calls import Calls
from egressd.config import Config
from egressd.credentials import Credentials
from egressd.desk.broker import BrokerDesk
from egressd.desk.loop import LoopDesk
from egressd.desk.owner import OwnerDesk
from egressd.destinations import Destinations
from egressd.fetch import Fetcher
from egressd.flights import Flights
from egressd.ports import NoContexts
from egressd.relay import Relaying
from egressd.spans import Spans, collected
from egressd.store import UsageStore
from egressd.wire.dial import tls_context
from proto import sockets
from proto.faults import Fault
from proto.role import clock, durable
from proto.role.config import load
from proto.role.listen import listen
from proto.role.main import Arguments, Opening, Ready, home_of, serve_all

_STATE = "state/egressd"


async def run(arguments: Arguments, ready: Ready) -> None:
    """Run until cancelled."""
    config = load(arguments.config, Config) if arguments.config else Config()
    home = home_of(arguments, config.paths.home)
    state = _made(home / _STATE)
    with collected(sockets.socket("spans-egress").at(home), config.traces, os.environ) as spans:
        await _serve(config, home, state, spans, ready)


async def _serve(config: Config, home: Path, state: Path, spans: Spans | None, ready: Ready) -> None:
    tls = tls_context(config.tls.ca_file)
    store = UsageStore(state)
    try:
        store.settle_left(clock.stamp(clock.now()))
        credentials, flights = Credentials(home, os.environ), Flights()
        destinations = Destinations(home, credentials.variable)
        ask = Asking(_at(home, config.sockets.decisions, "egress-broker", "broker.sock"), config.relay)
        relaying = Relaying(config.relay, destinations, tls, flights, ask)
        calls = Calls(credentials, PlainBooks(store, clock.now), relaying, NoContexts())
        loop = LoopDesk(sockets.socket("loop-egress").path, calls, config.relay, state)
        openings = [
            Opening(
                sockets.socket("broker-egress"),
                _at(home, config.sockets.broker, "broker-egress"),
                BrokerDesk(Fetcher(config.fetch, tls), flights),
            ),
            Opening(
                sockets.socket("owner-egress"),
                _at(home, config.sockets.admin, "owner-egress"),
                OwnerDesk(destinations, credentials, store),
            ),
        ]
        async with anyio.create_task_group() as tasks:
            listening = listen(_at(home, config.sockets.loop, "loop-egress"))
            serve_all(tasks, openings)
            tasks.start_soon(loop.serve, listening)
            if spans is not None:
                tasks.start_soon(spans.receive)
            ready()
            await anyio.sleep_forever()
    finally:
        store.close()


def _at(home: Path, configured: str | None, name: str, file: str | None = None) -> Path:
    return Path(configured) if configured else sockets.socket(name, file).at(home)


def _made(folder: Path) -> Path:
    try:
        durable.make_folder(folder)
    except OSError as error:
        raise Fault("egressd-start-failed", f"{folder}: {error.strerror}") from None
    return folder
