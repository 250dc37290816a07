"""Who listens where, who may ask, and what: one row a socket. The path names both ends.

A daemon binds the rows that name it as server and whose requests it answers; `ping` is answered on every framed one.
"""

from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from proto.messages import broker, egress, loop, memory, spans, wire

Requests = tuple[type[msgspec.Struct], ...]


class Socket(NamedTuple):
    """A row: a short name for logs, the two ends, the file, the protocol, what may be asked, and what for."""

    name: str
    client: str
    server: str
    file: str
    protocol: Literal["frames", "http", "datagrams"]
    requests: Requests
    about: str

    @property
    def path(self) -> str:
        """The path under the home."""
        return f"run/{self.name}/{self.file}"

    def at(self, home: Path) -> Path:
        """The path of the socket in a home."""
        return home / self.path

    @property
    def answers(self) -> Requests:
        """What may be asked, `ping` among it, or told."""
        return self.requests if self.protocol == "datagrams" else (wire.Ping, *self.requests)


SOCKETS: Final = (
    Socket(
        "loop-memory", "loopd", "memoryd", "memory.sock", "frames",
        (memory.MemoryBlock, memory.SessionUpdated), "the memory block; new records",
    ),
    Socket("broker-memory", "brokerd", "memoryd", "memory.sock", "frames", (memory.MemoryCall,), "decided calls"),
    Socket(
        "owner-memory", "bxctl", "memoryd", "admin.sock", "frames",
        (
            memory.Reindex, memory.MemoryAdmin, memory.Edits, memory.PendingEdits, memory.MemoryShow, wire.Verify,
            memory.KeptList, memory.KeptShow, memory.KeptErase, wire.Backup,
        ),
        "reindex, the edit journal, review, verify, kept material, backup",
    ),
    Socket(
        "loop-broker", "loopd", "brokerd", "broker.sock", "frames",
        (
            broker.SessionOpen, broker.SessionLabel, broker.ToolRequest, broker.ApprovalAnswer, broker.ApprovalIgnored,
            broker.SessionClose,
        ),
        "sessions and their tool calls",
    ),
    Socket("egress-broker", "egressd", "brokerd", "broker.sock", "frames", (broker.EgressAsks,), "may this leave?"),
    Socket(
        "egress-broker", "egressd", "brokerd", "tools.sock", "frames", (broker.ToolsList, broker.ToolRequest),
        "tool calls that came over MCP",
    ),
    Socket("launcher-broker", "launcherd", "brokerd", "broker.sock", "frames", (), "sessions of harnesses"),
    Socket(
        "owner-broker", "bxctl", "brokerd", "admin.sock", "frames",
        (
            broker.Approvals, broker.ApprovalAnswer, broker.Grants, broker.PolicyShow, broker.PolicyEval,
            broker.SessionLabels, broker.SessionReopen, broker.Decisions, wire.Verify, wire.Backup,
        ),
        "approvals, grants, policy, decisions, backup",
    ),
    Socket("loop-egress", "loopd", "egressd", "egress.sock", "http", (), "model calls and the Mattermost connection"),
    Socket(
        "broker-egress", "brokerd", "egressd", "egress.sock", "frames",
        (egress.Fetch, broker.SessionLabel), "decided fetches; a session's label rose",
    ),
    Socket(
        "launcher-egress", "launcherd", "egressd", "egress.sock", "frames",
        (egress.EgressOpen, egress.EgressClose, egress.HarnessUsage),
        "a session's own HTTP socket; a harness's own usage",
    ),
    Socket(
        "egress-memory", "egressd", "memoryd", "context.sock", "frames",
        (memory.KeepWhole, memory.KeepBegin, memory.KeepPiece, memory.KeepEnd), "decision contexts, write only",
    ),
    Socket("launcher-memory", "launcherd", "memoryd", "transcript.sock", "frames", (), "transcripts, write only"),
    Socket(
        "spans-egress", "every daemon", "egressd", "spans.sock", "datagrams", (spans.Span,),
        "trace spans, never waited for",
    ),
    Socket(
        "owner-egress", "bxctl", "egressd", "admin.sock", "frames",
        (egress.Usage, egress.Cost, egress.Models, egress.Destinations, wire.Backup),
        "usage, cost, models, destinations, backup",
    ),
    Socket("egress-model", "egressd", "boxmaker-model", "model.sock", "http", (), "the embedded model"),
    Socket("broker-launcher", "brokerd", "launcherd", "launch.sock", "frames", (), "decided calls to run in a sandbox"),
    Socket("loop-launcher", "loopd", "launcherd", "launch.sock", "frames", (), "run a harness for a task"),
    Socket("owner-launcher", "bxctl", "launcherd", "launch.sock", "frames", (), "bxctl launch"),
    Socket(
        "owner-loop", "bxctl", "loopd", "admin.sock", "frames",
        (
            loop.Chat, loop.ChatStop, loop.Sessions, loop.SessionLog, loop.Channels,
            broker.ApprovalAnswer, wire.Backup,
        ),
        "chat, sessions, channels, backup",
    ),
)  # fmt: skip
"""Every socket of the box but a session's own, `run/sessions/<id>/egress.sock`."""


def socket(name: str, file: str | None = None) -> Socket:
    """The row of a name such as `loop-memory`; `file` tells two of one folder apart.

    Raises:
        KeyError: there is none, or more than one.

    """
    rows = [row for row in SOCKETS if row.name == name and file in (None, row.file)]
    if len(rows) != 1:
        raise KeyError(name)
    return rows[0]


def served_by(daemon: str) -> tuple[Socket, ...]:
    """The rows whose server is that daemon."""
    return tuple(row for row in SOCKETS if row.server == daemon)
