"""loopd.toml: where the home is, which model answers, and how long a turn may become."""

from typing import Annotated, Literal

import msgspec

from proto.ids import DestinationName, DomainId

Positive = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class Paths(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where things lie."""

    home: str | None = None
    """The box's home; `--home` goes first, then this, then `$BOXMAKER_HOME`."""


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model of new sessions. A session keeps the destination and the model that it began with."""

    destination: DestinationName = "local"
    """The destination of grants.toml that serves it."""
    name: str = "smollm2-135m-instruct"
    """What the destination calls the model."""
    context_tokens: Annotated[int, msgspec.Meta(ge=1024)] = 8192
    """How many tokens a prompt and its answer may have together; a session that reaches it is full."""
    max_output_tokens: Positive = 1024
    """The longest answer that is asked for."""
    output_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The name that the provider has for that limit."""
    send_reasoning: bool = False
    """Whether the model's reasoning is sent back to it in later prompts; fixed when a session begins."""
    auth: Literal["subscription", "key", "gateway", "none"] = "none"
    """How the destination is paid for; brokerd keeps it with the session."""
    timeout_s: Seconds = 300.0
    """How long the model may be silent, before its first byte or between two."""


class Session(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What new sessions are."""

    domain: DomainId = "dom-me"
    """The domain that they belong to."""


class Memory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where memoryd answers."""

    socket: str | None = None
    """Its socket for loopd; by default `run/loop-memory/memory.sock` in the home."""


class Sockets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sockets at other places than `run/` in the home."""

    admin: str | None = None
    """The owner's socket, which loopd serves."""
    broker: str | None = None
    """brokerd's socket for loopd."""
    egress: str | None = None
    """egressd's HTTP socket for loopd."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a turn."""

    rounds: Positive = 24
    """After so many answers with tool calls the model must answer without tools."""
    refusals: Positive = 3
    """After so many refusals of the same call the model must answer without tools."""
    text_bytes: Annotated[int, msgspec.Meta(ge=1, le=786432)] = 262144
    """The longest message of the owner, in bytes of UTF-8."""
    result_bytes: Annotated[int, msgspec.Meta(ge=1024, le=786432)] = 65536
    """A longer tool result is cut to this; less is kept where the model's context has no room for so much."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of loopd.toml."""

    paths: Paths = Paths()
    model: Model = Model()
    session: Session = Session()
    memory: Memory = Memory()
    sockets: Sockets = Sockets()
    turn: Turn = Turn()
