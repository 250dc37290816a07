"""What egressd is asked over frames: fetches, sessions' own sockets, the owner's questions. The rest is HTTP."""

from typing import Annotated, Literal

import msgspec

from proto.ids import CallId, DestinationName, SessionId
from proto.messages.wire import Reply, Request

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
Source = Literal["egress", "harness"]
"""Who observed a use: the egress itself, or the harness, in its own account."""
Billing = Literal["metered", "plan"]
"""`metered`: on a key or a gateway's key that egressd holds. `plan`: on a login; it costs quota, not money."""


class Fetch(Request, frozen=True, tag="fetch"):
    """One hop of a decided fetch: exactly this URL is asked for, and a redirect comes back to be decided.

    `loopback` allows plain http to loopback addresses, as the grant says. Answered `fetched`, `fetch_redirected` or
    `fetch_failed`.
    """

    session: SessionId
    call: CallId
    url: str
    loopback: bool


class Fetched(Reply, frozen=True, tag="fetched"):
    """What came, as text, bounded; `truncated` says that it was longer."""

    url: str
    status: int
    content_type: str
    text: str
    truncated: bool


class FetchRedirected(Reply, frozen=True, tag="fetch_redirected"):
    """The server sends elsewhere; `location` is absolute and not yet decided."""

    status: int
    location: str


class FetchFailed(Reply, frozen=True, tag="fetch_failed"):
    """It could not be fetched; the sentence is for the model."""

    reason: Literal["address", "name", "connect", "tls", "timeout", "size", "protocol", "content"]
    message: str


class EgressOpen(Request, frozen=True, tag="egress_open"):
    """Opens a session's own HTTP socket, `run/sessions/<id>/egress.sock`; answered `egress_opened`.

    All its model calls and tunnels go to one destination. `harness` is the program's short name (`claude`, `codex`, …),
    or None for a program that is not known: some pairs of harness and `auth` are refused, with the reason. Opening an
    open session with the same words is answered again; with others it is refused.
    """

    session: SessionId
    destination: DestinationName
    auth: Literal["subscription", "key", "gateway", "none"]
    harness: str | None


class EgressOpened(Reply, frozen=True, tag="egress_opened"):
    """The socket accepts. `path` is absolute; `stand_in` is what a client gives in place of a key that is held here."""

    path: str
    stand_in: str


class EgressClose(Request, frozen=True, tag="egress_close"):
    """Closes a session's own socket, once: a call in flight finishes, a new one is refused; answered `ok`."""

    session: SessionId


class HarnessUsage(Request, frozen=True, tag="harness_usage"):
    """A harness's own count of what it used, kept beside the egress's and never added to it; answered `ok`.

    `call` tells reports apart: one that comes again takes the place of the earlier.
    """

    session: SessionId
    call: CallId
    destination: DestinationName
    model: str
    input_tokens: Count | None
    output_tokens: Count | None
    cache_read_tokens: Count | None
    cache_write_5m_tokens: Count | None
    cache_write_1h_tokens: Count | None
    reasoning_tokens: Count | None


class Usage(Request, frozen=True, tag="usage"):
    """Asks for what models used, since a time (RFC 3339) or of one session; `by_day` makes rows of each day of UTC."""

    since: str | None = None
    session: SessionId | None = None
    by_day: bool = False


class UsageRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Calls and tokens of one destination, model, status and source; null where the provider reported none.

    `input_tokens` is the whole prompt, with what was read from the provider's cache and written to it; `output_tokens`
    the whole answer, with its reasoning. `partial` is how many calls the provider may have counted higher. A tunnel's
    row has the host and port in place of the model, and the bytes that were carried.
    """

    destination: str
    model: str
    status: int
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    source: Source = "egress"
    billing: Billing = "metered"
    partial: int = 0
    cache_write_5m_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    reasoning_tokens: int | None = None
    up_bytes: int | None = None
    down_bytes: int | None = None
    day: str | None = None


class UsageReply(Reply, frozen=True, tag="usage_reply"):
    """The rows, the most used first."""

    rows: list[UsageRow]


class Cost(Request, frozen=True, tag="cost"):
    """Asks for what sessions cost, since a time (RFC 3339) or of one session."""

    since: str | None = None
    session: SessionId | None = None


class CostRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One session: money for metered calls on priced models, and tokens for all the rest.

    `nusd` is in nano-dollars (1 USD is 1,000,000,000), at the prices of the time of each call. A session with
    `unpriced_models` or `partial` calls, which the provider may have counted higher, cost more than that.
    """

    session: str
    calls: int
    nusd: int
    metered_tokens: int
    unpriced_models: list[str]
    unpriced_tokens: int
    plan_tokens: int
    harness_tokens: int
    partial: int = 0


class CostReply(Reply, frozen=True, tag="cost_reply"):
    """The sessions, the dearest first; the sum of all of them, and what is wrong with prices.toml, if anything."""

    rows: list[CostRow]
    total_nusd: int
    problem: str | None


class Models(Request, frozen=True, tag="models"):
    """Asks for the models of a destination, as it lists them itself, or of every one that was used or has a price."""

    destination: DestinationName | None = None


class ModelRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model, the name in prices.toml that prices it, and its prices in US dollars per million tokens, as texts."""

    destination: str | None
    model: str
    priced_as: str | None
    input: str | None
    output: str | None
    cache_read: str | None
    cache_write: str | None


class ModelsReply(Reply, frozen=True, tag="models_reply"):
    """The models by name; `source` says where the prices come from (prices.toml's own note), if it does."""

    models: list[ModelRow]
    source: str | None
    problem: str | None


class Destinations(Request, frozen=True, tag="destinations"):
    """Asks for the destinations and whether each has its credential."""


class DestinationRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A destination; `credential` names the variable, `ready` says whether it is set (true when none is needed)."""

    destination: str
    base_url: str | None
    apis: list[str]
    auths: list[str]
    ceiling: str
    credential: str | None
    ready: bool
    tunnels: list[str]
    hosted_tools: list[str]


class DestinationsReply(Reply, frozen=True, tag="destinations_reply"):
    """The destinations by name, and what is wrong with grants.toml, if anything."""

    destinations: list[DestinationRow]
    problem: str | None
