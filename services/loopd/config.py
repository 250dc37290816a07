"""loopd.toml: where the home is, which model answers, and how long a turn may become."""

from typing import Annotated, Literal

import msgspec

from proto.ids import DestinationName, DomainId

Positive = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
MattermostId = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]{26}$")]
User = Annotated[str, msgspec.Meta(pattern=r"^([a-z0-9]{26}|@[a-z0-9._-]{1,64})$")]
Answer = Literal["mention", "thread", "all"]


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


class Mattermost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Mattermost server whose threads are sessions. egressd holds the bot's token, grants.toml the address."""

    enabled: bool = False
    """Whether loopd speaks with it at all."""
    destination: DestinationName = "mattermost"
    """The destination of grants.toml that is the server."""
    owner: User | None = None
    """The box's owner: a user's id, or `@name`. What anybody else writes is untrusted."""
    users: list[User] = []
    """Who else is answered, wherever the bot is: ids or `@name`s."""
    channels: list[MattermostId] = []
    """Channels, by their ids, in which everybody is answered."""
    answer: Answer = "mention"
    """Which posts of others get an answer outside direct channels: those that mention the bot, those in a thread that
    it is in already (`thread`) as well, or `all`."""
    answer_owner: Answer = "all"
    """The same for the owner's posts."""
    turns_at_once: Positive = 32
    """How many threads are worked on at the same time, those that wait for the owner not counted; further ones wait."""
    edit_every_s: Seconds = 1.0
    """A post that grows is changed so often at most."""
    output_chars: Annotated[int, msgspec.Meta(ge=0)] = 4000
    """A tool's output that is longer is put into the thread as a file; 0 for never."""
    reconnect_most_s: Seconds = 60.0
    """The longest rest before the next try, after the connection broke or a request failed."""
    ping_s: Seconds = 20.0
    """After so long without a word from the server it is asked for a sign; without one it counts as gone."""

    def __post_init__(self) -> None:
        """Refuse a channel that would not know whom it serves."""
        if self.enabled and self.owner is None:
            raise ValueError("mattermost.owner says whose box this is: the id of a user, or @name")


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of loopd.toml."""

    paths: Paths = Paths()
    model: Model = Model()
    session: Session = Session()
    memory: Memory = Memory()
    sockets: Sockets = Sockets()
    turn: Turn = Turn()
    mattermost: Mattermost = Mattermost()
