"""loopd put together: its stores, its ports, its desk. The only place that knows all of it."""

from pathlib import Path

import anyio

from loopd.channels.mattermost.channel import SESSIONS, Channel
from loopd.config import Config
from loopd.conversations import Conversations
from loopd.desk.owner import OwnerDesk
from loopd.ports.all import Ports, mattermost_port, ports_of
from loopd.session.marks import Marks
from loopd.session.migrations import STEPS
from loopd.session.store import Store
from proto.faults import Fault
from proto.role import clock, migration, trace
from proto.role.config import load
from proto.role.main import Arguments, Opening, Ready, home_of, serve_all
from proto.sockets import socket


async def run(arguments: Arguments, ready: Ready) -> None:
    """Run until cancelled. Every record is on disk when it is written, so that there is nothing to finish."""
    config = load(arguments.config, Config) if arguments.config else Config()
    home = home_of(arguments, config.paths.home)
    trace.start("loopd", trace.Datagrams(socket("spans-egress").at(home)))
    with migration.held(home, "loopd", STEPS):
        await _serve(home, config, ready)


async def _serve(home: Path, config: Config, ready: Ready) -> None:
    try:
        store = Store(home / "sessions")
        marks = Marks(home / "state" / "loopd" / "turns")
    except OSError as error:
        raise Fault("start-failed", f"{error.filename or home}: {error.strerror or error}") from None
    ports = ports_of(home, config)
    conversations = Conversations(store, marks, ports, config, clock.now)
    row = socket("owner-loop")
    path = row.at(home) if config.sockets.admin is None else home / config.sockets.admin
    channels = [_channel(home, config, conversations, ports)] if config.mattermost.enabled else []
    async with anyio.create_task_group() as tasks:
        desk = OwnerDesk(
            tasks, conversations, store, ports.broker, home, lambda: [channel.state() for channel in channels]
        )
        serve_all(tasks, [Opening(row, path, desk.answer)])
        ready()
        for channel in channels:
            # Its sessions' turns are taken up where their answers go.
            tasks.start_soon(channel.run)
        tasks.start_soon(conversations.resume_all, SESSIONS if channels else None)
        await anyio.sleep_forever()


def _channel(home: Path, config: Config, conversations: Conversations, ports: Ports) -> Channel:
    folder = home / "state" / "loopd" / "mattermost"
    try:
        return Channel(config.mattermost, mattermost_port(home, config), folder, conversations, ports.broker)
    except OSError as error:
        raise Fault("start-failed", f"{error.filename or folder}: {error.strerror or error}") from None
