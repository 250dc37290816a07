"""What egressd is asked over frames: one hop of a decided fetch, and the owner's questions. The rest is HTTP."""

from typing import Literal

import msgspec

from proto.ids import CallId, SessionId
from proto.messages.wire import Reply, Request


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


class Usage(Request, frozen=True, tag="usage"):
    """Asks for what models used, since a time (RFC 3339) or of one session."""

    since: str | None = None
    session: SessionId | None = None


class UsageRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Calls and tokens of one destination, model and status; null where the provider reported none."""

    destination: str
    model: str
    status: int
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None


class UsageReply(Reply, frozen=True, tag="usage_reply"):
    """The rows, the most used first."""

    rows: list[UsageRow]


class Destinations(Request, frozen=True, tag="destinations"):
    """Asks for the destinations and whether each has its credential."""


class DestinationRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A destination; `credential` names the variable, `ready` says whether it is set (true when none is needed)."""

    destination: str
    base_url: str
    api: str
    ceiling: str
    credential: str | None
    ready: bool


class DestinationsReply(Reply, frozen=True, tag="destinations_reply"):
    """The destinations by name, and what is wrong with grants.toml, if anything."""

    destinations: list[DestinationRow]
    problem: str | None
