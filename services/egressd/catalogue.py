"""The models of a destination, as it lists them itself: a request of the owner's own, with nothing of a session in it.

The bytes that leave are those that stand here, and the destination's key.
"""

import re
from typing import Any, Final, NamedTuple

import msgspec

from egressd.auth import carried
from egressd.credentials import Credentials
from egressd.destinations import Place
from egressd.exchange import exchange
from egressd.relay import Relaying, connected
from egressd.wire.heads import Carried, for_upstream
from egressd.wire.http import Headers, Request
from proto.faults import Fault
from proto.rules import Api

_LONGEST_ANSWER_BYTES: Final = 8 << 20
_WITHIN_S: Final = 20.0
_MOST_MODELS: Final = 1_000
_NAME: Final = re.compile(r"[\x21-\x7e]{1,120}")


class _List(NamedTuple):
    """Where an API lists its models, with which headers, and in which fields their names are."""

    target: str
    headers: Headers
    rows: str
    name: str
    before: str = ""


_OPENAI: Final = _List("/v1/models", [], "data", "id")
_LISTS: Final[dict[Api, _List]] = {
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
    "anthropic": _List("/v1/models?limit=1000", [(b"anthropic-version", b"2023-06-01")], "data", "id"),
    "gemini": _List("/v1beta/models?pageSize=1000", [], "models", "name", "models/"),
}
"""platform.openai.com "List models"; docs.anthropic.com "List Models"; ai.google.dev "models.list"."""


async def models(place: Place, credentials: Credentials, shared: Relaying) -> list[str]:
    """The names of the models that a destination lists, sorted.

    Raises:
        Fault: it has no list, no key, does not answer, or refuses.

    """
    api = next((api for api in place.rule.apis if api in _LISTS), None)
    auth = next((auth for auth in place.rule.auths if auth != "subscription"), None)
    if api is None or auth is None:
        raise Fault("route-unknown", f"{place.name} has no list of models that can be asked for without a login")
    carries = carried(auth, api, place, credentials)
    upstream = await connected(place, shared)
    found = await exchange(_request(api, place, carries), upstream, place.name, _LONGEST_ANSWER_BYTES, _WITHIN_S)
    if found.head.status != 200:
        raise Fault("upstream-unreachable", f"{place.name} answered with the status {found.head.status}")
    return _names(found.body, _LISTS[api], place.name)


def _request(api: Api, place: Place, carries: Carried) -> Request:
    listed = _LISTS[api]
    own = Request(b"GET", listed.target.encode("ascii"), listed.headers)
    return for_upstream(own, api, place.authority, place.prefix + listed.target, carries, 0)


def _names(data: bytes, listed: _List, name: str) -> list[str]:
    try:
        untrusted: Any = msgspec.json.decode(data)
        rows = untrusted[listed.rows]
        found = {str(row[listed.name]).removeprefix(listed.before) for row in rows[:_MOST_MODELS]}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
        raise Fault("upstream-unreachable", f"{name} gave an answer that is no list of models") from None
    return sorted(model for model in found if _NAME.fullmatch(model))
