"""config/brokerd.toml: where brokerd's sockets are, and how long it waits for the policy, its peers and the owner."""

from typing import Annotated

import msgspec

Seconds = Annotated[float, msgspec.Meta(gt=0, le=86400)]


class Paths(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the box is."""

    home: str | None = None
    """The box's home, when the command line does not say; then `$BOXMAKER_HOME`, then `/var/lib/boxmaker`."""


class Memory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How memoryd is reached."""

    socket: str | None = None
    """memoryd's socket for brokerd; by default `run/broker-memory/memory.sock` under the home."""
    timeout_s: Seconds = 30.0
    """A memory call that has no answer by then fails as `memoryd-unreachable`."""


class Egress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How egressd is reached."""

    socket: str | None = None
    """egressd's socket for brokerd; by default `run/broker-egress/egress.sock` under the home."""
    timeout_s: Seconds = 25.0
    """One hop of a fetch that has no answer by then fails as `egressd-unreachable`."""
    notice_s: Seconds = 5.0
    """How long a result waits for egressd to close what a risen label no longer allows. It is then withheld."""


class Sockets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where brokerd listens, when not at the usual paths under `run/`."""

    loop: str | None = None
    """For loopd; by default `run/loop-broker/broker.sock`."""
    egress: str | None = None
    """For egressd; by default `run/egress-broker/broker.sock`."""
    tools: str | None = None
    """For egressd's tool calls over MCP; by default `run/egress-broker/tools.sock`."""
    admin: str | None = None
    """For the owner; by default `run/owner-broker/admin.sock`."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the policy is evaluated."""

    timeout_s: Seconds = 2.0
    """An evaluation that takes longer is ended with its process, and the call is denied (`policy-invalid`)."""


class Approvals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the owner is asked."""

    lapse_s: Seconds = 3600.0
    """A call that the owner has not answered by then is denied."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    paths: Paths = Paths()
    memory: Memory = Memory()
    egress: Egress = Egress()
    sockets: Sockets = Sockets()
    policy: Policy = Policy()
    approvals: Approvals = Approvals()
