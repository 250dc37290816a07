"""`{home}/grants.toml`: the owner's rules that both brokerd and egressd read, and must read alike.

Each section is known here to the letter: an unknown key is an error, and an error closes what it decides.
"""

import os
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from proto import forms
from proto.ids import DestinationName, DomainId, MattermostId
from proto.labels import DataClass
from proto.role.config import load

BaseUrl = Annotated[str, msgspec.Meta(pattern=forms.BASE_URL.pattern)]
ModelApi = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "code-assist"]
"""The APIs of models that egressd knows."""
Api = ModelApi | Literal["mattermost"]
"""Every API that it knows."""
Auth = Literal["subscription", "key", "gateway", "none"]
"""Whose credential a call carries: the harness's own login, a key or a gateway's key that egressd holds, or none."""
TunnelHost = Annotated[str, msgspec.Meta(pattern=forms.TUNNEL_HOST.pattern)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
Usd = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class Destination(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where bytes may go. The path of a request is put after `base_url` as it is."""

    base_url: BaseUrl | None = None
    """https://, http:// to loopback, or unix:PATH (a relative path is under the home); none for tunnels alone. What
    `base_url_from` names comes before it."""
    base_url_from: str | None = None
    """The name of a variable that holds the base URL, such as LLMAO_URL; looked for where credentials are."""
    api: Api | list[Api] = "openai-chat"
    """The APIs that it answers."""
    ceiling: DataClass = DataClass.PRIVATE
    """The highest class of a session whose bytes may go there."""
    credential: str | None = None
    """The name of the variable that holds the key; looked for where `docs/configuration.md` says."""
    auth: list[Auth] | None = None
    """How calls may be authorised there; without it `key` where a credential is named, else `none`."""
    tunnels: list[TunnelHost] = []
    """Hosts (`HOST` or `HOST:PORT`) to which TLS may be tunnelled: pinned, and not metered."""
    max_output: Annotated[int, msgspec.Meta(ge=1, le=1 << 32)] = 128_000
    """The most tokens that an answer is taken to have, where a request names no maximum (for `[spend]`)."""
    hosted_tools: list[str] = []
    """Tools run by the provider that a request may name, such as `web_search`; their use makes a session untrusted."""
    quirks: list[Literal["system-fold", "output-cap", "models-catalog", "function-response-fold"]] = []
    """What is changed in requests to it, by the names of `docs/egress.md`; nothing else ever is."""

    def __post_init__(self) -> None:
        """Refuse a destination that leads nowhere, or has no API."""
        if self.base_url is None and self.base_url_from is None and not self.tunnels:
            raise ValueError("a destination has a base_url, a base_url_from or tunnels")
        if not self.apis:
            raise ValueError("api names at least one API")
        if self.is_mattermost and (len(self.apis) > 1 or self.tunnels):
            raise ValueError("a Mattermost server has no other API and no tunnels")

    @property
    def apis(self) -> tuple[Api, ...]:
        """The APIs, one or more."""
        return (self.api,) if isinstance(self.api, str) else tuple(self.api)

    @property
    def is_mattermost(self) -> bool:
        """Whether it is a Mattermost server."""
        return "mattermost" in self.apis

    @property
    def auths(self) -> tuple[Auth, ...]:
        """How calls may be authorised."""
        if self.auth is not None:
            return tuple(self.auth)
        return ("key",) if self.credential else ("none",)

    def names_tunnel(self, host: str, port: int) -> bool:
        """Whether a tunnel may lead to a host (ASCII, lower case) and port; an entry without a port means 443."""
        return f"{host}:{port}" in self.tunnels or (port == 443 and host in self.tunnels)


class Spend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be spent at a destination; no limit where none is named. A day is UTC's."""

    session_tokens: Tokens | None = None
    """Tokens in and out of one session; in counts uncached, cache reads and cache writes."""
    day_tokens: Tokens | None = None
    """Tokens in and out of all sessions in a day."""
    session_usd: Usd | None = None
    """US dollars of one session's metered calls; a model without a price is refused."""
    day_usd: Usd | None = None
    """US dollars of all sessions' metered calls in a day."""

    @property
    def session_nusd(self) -> int | None:
        """`session_usd` in nano-dollars."""
        return _nusd(self.session_usd)

    @property
    def day_nusd(self) -> int | None:
        """`day_usd` in nano-dollars."""
        return _nusd(self.day_usd)


class Domain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for the sessions of a domain."""

    default_class: DataClass = DataClass.PRIVATE
    """The class of what is filed without one."""
    admit_own: bool = True
    """Whether a task that a session files from a task that it holds starts as admitted."""
    transcript_retention_days: Annotated[int, msgspec.Meta(ge=0, le=36_500)] = 30
    """How long decision contexts, transcripts and sources are kept."""


class Channel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for a channel of Mattermost; NAME is its id."""

    ceiling: DataClass = DataClass.PRIVATE
    """The highest class of a session that may post there; `secret` counts in a direct channel with the owner alone."""


class Mattermost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who the owner is on the Mattermost server, and what may be posted where."""

    owner: MattermostId | None = None
    """The owner's user id there; without it no channel is a direct one with the owner."""
    channels: dict[MattermostId, Channel] = {}

    def ceiling(self, channel: str, *, direct: bool) -> DataClass:
        """The highest class of a session that may post in a channel; `direct` says that only the owner reads it."""
        named = self.channels.get(channel, Channel()).ceiling
        only_owner = direct and self.owner is not None
        return named if only_owner or named.rank <= DataClass.PRIVATE.rank else DataClass.PRIVATE


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of grants.toml."""

    destinations: dict[DestinationName, Destination] = {}
    spend: dict[DestinationName, Spend] = {}
    domains: dict[DomainId, Domain] = {}
    mattermost: Mattermost = Mattermost()

    def __post_init__(self) -> None:
        """Refuse limits of a destination that there is not: a name that is misspelt would limit nothing."""
        for name in self.spend:
            if name not in self.destinations:
                raise ValueError(f"spend.{name} limits a destination that is not there")


FILE: Final = "grants.toml"
NUSD: Final = 10**9
"""Nano-dollars in a US dollar."""


def load_rules(home: Path) -> Rules:
    """The rules in a home; none when the file is absent.

    Raises:
        Fault: `config-invalid`, with the file, the line and the key.

    """
    path = home / FILE
    return load(path, Rules) if os.path.lexists(path) else Rules()


def _nusd(usd: float | None) -> int | None:
    """Whole nano-dollars, of the number as it is written."""
    return None if usd is None else int(Decimal(repr(usd)) * NUSD)
