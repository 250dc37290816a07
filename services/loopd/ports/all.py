"""The daemons that a turn needs, as one value."""

from pathlib import Path
from typing import NamedTuple

from loopd.config import Config
from loopd.ports.broker import BrokerPort
from loopd.ports.mattermost import MattermostPort
from loopd.ports.memory import MemoryPort
from loopd.ports.model import ModelPort
from proto.sockets import socket


class Ports(NamedTuple):
    """memoryd, brokerd, and the model behind egressd."""

    memory: MemoryPort
    broker: BrokerPort
    model: ModelPort


def ports_of(home: Path, config: Config) -> Ports:
    """The ports at the places that the configuration names, or at those of the home."""
    return Ports(
        memory=MemoryPort(_at(home, config.memory.socket, "loop-memory")),
        broker=BrokerPort(_at(home, config.sockets.broker, "loop-broker"), config.session.domain),
        model=ModelPort(_at(home, config.sockets.egress, "loop-egress"), config.model.timeout_s),
    )


def mattermost_port(home: Path, config: Config) -> MattermostPort:
    """The way to the Mattermost server, over the same socket as the model."""
    return MattermostPort(_at(home, config.sockets.egress, "loop-egress"), config.mattermost.destination)


def _at(home: Path, configured: str | None, name: str) -> Path:
    # A path of the configuration may be relative to the home.
    return socket(name).at(home) if configured is None else home / configured
