"""How a call is authorised: whose credential it carries, in which header, and which pairs are refused with a reason."""

from typing import Final, NamedTuple

from egressd.credentials import Credentials
from egressd.destinations import Place
from egressd.wire.heads import Asked, Carried
from proto.faults import Fault
from proto.rules import Api, Auth

_BEARER: Final = "authorization"
_KEY_HEADER: Final[dict[Api, str]] = {
    "openai-chat": _BEARER,
    "openai-responses": _BEARER,
    "anthropic": "x-api-key",
    "gemini": "x-goog-api-key",
    "code-assist": _BEARER,
    "mattermost": _BEARER,
}
"""Where an API wants its key: docs.anthropic.com "API overview"; ai.google.dev "API keys"; the others as RFC 6750."""
_OF_OPENAI: Final = frozenset({b"authorization", b"chatgpt-account-id", b"openai-organization", b"openai-project"})
PASSED: Final[dict[Api, frozenset[bytes]]] = {
    "openai-chat": _OF_OPENAI,
    "openai-responses": _OF_OPENAI,
    "anthropic": frozenset({b"authorization", b"x-api-key"}),
    "gemini": frozenset({b"authorization", b"x-goog-api-key", b"x-goog-user-project"}),
    "code-assist": frozenset({b"authorization", b"x-goog-user-project"}),
    "mattermost": frozenset(),
}
"""The client's own credentials, and which of its accounts is billed, that go on with `subscription`, by API; with any
other way none does: whose the key is, says who pays."""


STAND_IN: Final = "boxmaker-holds-the-key"
"""What a client gives in place of a key that egressd holds; it goes nowhere."""


class Pair(NamedTuple):
    """What is not supported: a harness, at which destination (None for each), and how."""

    harness: str
    destination: str | None
    auth: Auth
    reason: str


UNSUPPORTED: Final = (
    Pair(
        "opencode", "anthropic", "subscription",
        "OpenCode with a Claude Pro or Max login is not supported: Anthropic prohibits third-party clients",
    ),
    Pair(
        "pi", "anthropic", "subscription",
        "pi with a Claude login is not supported: Anthropic prohibits third-party clients",
    ),
    Pair("pi", None, "subscription", "pi has no login that can be carried; use a key or a gateway"),
    Pair("copilot", None, "key", "Copilot with a key is not supported: it has no key mode"),
    Pair("copilot", None, "gateway", "Copilot through a gateway is not supported: it has no base-URL override"),
    Pair("qwen", None, "subscription", "Qwen Code has no login any more: its free tier ended in April 2026; use a key"),
    Pair(
        "codex", "github-copilot", "subscription",
        "Codex on a Copilot login is not supported: GitHub refuses clients that it does not recognise",
    ),
    Pair("command", None, "subscription", "a program of its own has no login that can be carried; use a key"),
)  # fmt: skip
"""Pairs that are refused, each with its reason; the first that fits says why."""


def auth_of(asked: Asked, place: Place) -> Auth:
    """How a call is authorised: as its session says, or else as the destination's rule does.

    Raises:
        Fault: `auth-unsupported`, with the reason.

    """
    if asked.auth is None:
        return next((auth for auth in place.rule.auths if auth != "subscription"), "none")
    check(place, asked.auth, None)
    return asked.auth


def check(place: Place, auth: Auth, harness: str | None) -> None:
    """Let pass a way to authorise calls that a destination takes, and that a harness may use there.

    Raises:
        Fault: `auth-unsupported`, with the reason.

    """
    for pair in UNSUPPORTED:
        if pair.harness == harness and pair.destination in (None, place.name) and pair.auth == auth:
            raise Fault("auth-unsupported", f"refused: {pair.reason}")
    if auth not in place.rule.auths:
        ways = ", ".join(place.rule.auths)
        raise Fault("auth-unsupported", f"refused: calls to {place.name} are authorised by {ways}, not by {auth}")


def is_ready(place: Place, credentials: Credentials) -> bool:
    """Whether calls can leave: the address is known, and some way to authorise them has what it needs."""
    rule = place.rule
    has = {
        "none": True,
        "subscription": True,
        "key": rule.credential is not None and credentials.is_set(rule.credential),
        "gateway": "gateway" in rule.auths and credentials.is_gateway_set(rule.credential),
    }
    return (place.at is not None or bool(rule.tunnels)) and any(has[auth] for auth in rule.auths)


def carried(auth: Auth, api: Api, place: Place, credentials: Credentials) -> Carried:
    """What authorises a call.

    Raises:
        Fault: `credential-missing`.

    """
    match auth:
        case "subscription":
            return Carried(passed=PASSED[api])
        case "none":
            return Carried()
        case "key" | "gateway":
            key = _key(auth, place, credentials)
            header = _KEY_HEADER[api]
            value = f"Bearer {key}" if header == _BEARER else key
            return Carried(put=((header.title().encode(), value.encode("ascii")),), secrets=(key.encode("ascii"),))


def _key(auth: Auth, place: Place, credentials: Credentials) -> str:
    name = place.rule.credential
    if auth == "gateway":
        return credentials.find_gateway(name)
    if name is None:
        raise Fault("credential-missing", f"the destination {place.name} names no credential")
    return credentials.find(name)
