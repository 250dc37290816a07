"""The settings of egressd: `egressd serve --config PATH`."""

from typing import Annotated

import msgspec

from proto.labels import DataClass

Seconds = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class Paths(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where things lie."""

    home: str | None = None
    """The box's home; `--home` comes before it, `$BOXMAKER_HOME` and /var/lib/boxmaker after it."""


class Sockets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sockets, where they are not at their place under the home."""

    loop: str | None = None
    """Served: loopd's HTTP; `run/loop-egress/egress.sock`."""
    broker: str | None = None
    """Served: fetches and labels from brokerd; `run/broker-egress/egress.sock`."""
    admin: str | None = None
    """Served: the owner's questions; `run/owner-egress/admin.sock`."""
    launcher: str | None = None
    """Served: launcherd's opening and closing of sessions' own sockets; `run/launcher-egress/egress.sock`."""
    decisions: str | None = None
    """Asked: brokerd's decisions; `run/egress-broker/broker.sock`."""
    contexts: str | None = None
    """Asked: memoryd takes decision contexts; `run/egress-memory/context.sock`."""
    tools: str | None = None
    """Asked: brokerd's tool calls, for what came over MCP; `run/egress-broker/tools.sock`."""


class Relay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of a relayed call."""

    connections: Count = 2048
    """How many connections of loopd are open at once; one that waits for room below a limit holds its own."""
    head_s: Seconds = 10.0
    """How long a client may take to send the head of its request."""
    body_s: Seconds = 60.0
    """How long a client may take to send the body."""
    body_bytes: Count = 32 << 20
    """The largest body of a request; over 1 MiB it is spooled to an unlinked file."""
    connect_s: Seconds = 15.0
    """How long a connection to a destination may take, its name and TLS included."""
    warm_s: Annotated[float, msgspec.Meta(ge=0)] = 15.0
    """How long a connection with TLS is kept for the next call of the same session."""
    room_s: Seconds = 60.0
    """How long a call waits for room below a spend limit while others, which have reserved it, are under way."""
    ask_s: Seconds = 10.0
    """How long brokerd may take to decide; after that the call is refused."""
    answer_s: Seconds = 600.0
    """How long a destination may take before its answer begins."""
    idle_s: Seconds = 300.0
    """How long an answer may pause."""
    stall_s: Seconds = 60.0
    """How long a client may take no bytes before it counts as gone."""
    drain_s: Seconds = 60.0
    """How long an answer is read on for its usage after the client has gone."""
    drain_bytes: Count = 16 << 20
    """How much of an answer is read on for its usage after the client has gone."""


class Fetch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of one hop of a fetch."""

    total_s: Seconds = 20.0
    """How long the whole hop may take."""
    body_bytes: Count = 2 << 20
    """The largest answer, as it comes and decompressed."""
    text_bytes: Annotated[int, msgspec.Meta(ge=1, le=800_000)] = 200_000
    """The longest text that is handed out; what is longer is cut and marked so."""


class Session(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of a session's own socket."""

    connections: Count = 2048
    """How many connections of one session may be open at once; one more is refused with 503."""
    mcp_body_bytes: Count = 1 << 20
    """The largest body of an MCP request."""
    mcp_calls: Count = 32
    """How many MCP requests of one session may be under way at once; one more is refused with 503."""
    tool_s: Seconds = 180.0
    """How long a tool call over MCP may take, beside the time in which it waits for the owner."""


class Tunnel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of a tunnel."""

    hello_s: Seconds = 10.0
    """How long a client may take for its TLS hello, from the first byte of it."""
    connect_s: Seconds = 15.0
    """How long a connection to a tunnel's host may take, its name included, and how long the host's first answer."""
    idle_s: Seconds = 600.0
    """How long a tunnel may carry nothing, also before its first byte."""
    inside: list[str] = []
    """Hosts of tunnels whose address may be an inner one (a company's own network, this machine); any other's must be
    public."""


class Contexts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of what is kept of model calls until memoryd has it. How long memoryd keeps it is in grants.toml."""

    response_bytes: Annotated[int, msgspec.Meta(ge=0, le=128 << 20)] = 32 << 20
    """How much of an answer is kept; what is longer is cut and marked so."""
    outbox_bytes: Annotated[int, msgspec.Meta(ge=0)] = 1 << 30
    """How much may wait on disk for memoryd; what finds no room is dropped, and the log says so."""


class Mattermost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of the connection to a Mattermost server."""

    sockets: Count = 8
    """How many WebSockets may be open at once; one more is refused with 503."""
    message_bytes: Count = 8 << 20
    """The longest message that the server may send over WebSocket; a post whose props are full is six MB."""
    idle_s: Seconds = 600.0
    """How long neither side may say anything over WebSocket."""
    file_bytes: Count = 32 << 20
    """The largest file that is uploaded."""


class Tls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom to believe."""

    ca_file: str | None = None
    """Certificates (PEM) of authorities that are believed beside the system's, such as a company's own."""


class Traces(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where traces go: nowhere, unless a collector is named here or by `OTEL_EXPORTER_OTLP_ENDPOINT`."""

    endpoint: str | None = None
    """The OTLP/HTTP base of a collector, such as http://localhost:4318; what the environment names comes before it."""
    ceiling: DataClass = DataClass.PRIVATE
    """The highest class of a session whose query texts go into its traces; above it they are left out."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of egressd.toml."""

    paths: Paths = Paths()
    sockets: Sockets = Sockets()
    relay: Relay = Relay()
    fetch: Fetch = Fetch()
    session: Session = Session()
    tunnel: Tunnel = Tunnel()
    contexts: Contexts = Contexts()
    mattermost: Mattermost = Mattermost()
    tls: Tls = Tls()
    traces: Traces = Traces()
