"""The only place that knows all of egressd: makes its parts, opens its sockets, waits to be ended."""

import functools
import os
from pathlib import Path

import anyio

from egressd.calls import Calls
from egressd.config import Config, Relay
from egressd.credentials import Credentials
from egressd.desk.broker import BrokerDesk
from egressd.desk.loop import LoopDesk
from egressd.desk.owner import OwnerDesk
from egressd.destinations import Destinations
from egressd.fetch import Fetcher
from egressd.flights import Flights
from egressd.relay import Relaying
from egressd.spans import Spans, collected
from egressd.store import UsageStore
from egressd.wire.dial import tls_context
from egressd.wire.heads import Asked
from proto import sockets
from proto.faults import Fault
from proto.messages.broker import EgressAsk, EgressDecision
from proto.role import clock, durable
from proto.role.call import call
from proto.role.config import load
from proto.role.listen import listen
from proto.role.main import Arguments, Opening, Ready, home_of, serve_all

_STATE = "state/egressd"
_CONNECT_WITHIN_S = 2.0
"""A brokerd that is being started again is waited for so long."""


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
        destinations, credentials, flights = Destinations(home), Credentials(home, os.environ), Flights()
        ask = functools.partial(_ask, _at(home, config.sockets.decisions, "egress-broker", "broker.sock"), config.relay)
        relaying = Relaying(config.relay, destinations, tls, flights, ask)
        calls = Calls(credentials, store, relaying, clock.now)
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


async def _ask(path: Path, limits: Relay, call_id: str, asked: Asked) -> EgressDecision:
    """What brokerd says of a call.

    Raises:
        Fault: it does not answer, or answers with an error.

    """
    request = EgressAsk(
        session=asked.session,
        call=call_id,
        destination=asked.destination,
        method=asked.method,
        path=asked.path,
        trace=asked.trace,
    )
    decision: EgressDecision = await call(
        path,
        request,
        EgressDecision,
        timeout_s=limits.ask_s,
        connect_within_s=_CONNECT_WITHIN_S,
        unreachable="brokerd-unreachable",
    )
    return decision


def _at(home: Path, configured: str | None, name: str, file: str | None = None) -> Path:
    return Path(configured) if configured else sockets.socket(name, file).at(home)


def _made(folder: Path) -> Path:
    try:
        durable.make_folder(folder)
    except OSError as error:
        raise Fault("egressd-start-failed", f"{folder}: {error.strerror}") from None
    return folder
