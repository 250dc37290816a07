"""What of a head goes on: checked heads of clients, the head for the upstream, the head for the client. No I/O.

A head is never passed on; a new one is made of the parts that are named here, so that nothing can be smuggled in it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote_plus

from egressd.wire.http import CLOSE, Headers, Request, Response
from proto.faults import Fault
from proto.ids import is_session_id, is_traceparent
from proto.rules import Api, Auth

Came = Mapping[bytes, list[bytes]]
"""The values of each header of a head, by its name in small letters."""

SESSION: Final = b"x-boxmaker-session"
CHANNEL: Final = b"x-boxmaker-channel"
"""What loopd's connection to Mattermost reads for itself, and for no session."""
_CHANNELS: Final = (b"mattermost",)
_OF_ALL: Final = frozenset({b"accept", b"content-type", b"user-agent"})
_OPENAI: Final = _OF_ALL | {
    b"idempotency-key", b"openai-beta", b"originator", b"session_id", b"session-id", b"x-client-request-id",
}  # fmt: skip
_GOOGLE: Final = _OF_ALL | {b"x-goog-api-client", b"x-server-timeout"}
TO_UPSTREAM: Final[dict[Api, frozenset[bytes]]] = {
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
    "anthropic": _OF_ALL
    | {
        b"anthropic-beta", b"anthropic-version", b"anthropic-dangerous-direct-browser-access", b"idempotency-key",
        b"x-app", b"x-claude-code-session-id",
    },
    "gemini": _GOOGLE,
    "code-assist": _GOOGLE,
    "mattermost": _OF_ALL,
}  # fmt: skip
"""The headers of a request that go on, by API; the client's own keys, cookies and everything else do not."""
_FAMILIES: Final = (b"x-stainless-",)
"""What the SDKs of OpenAI and Anthropic say of themselves: their version, the language, the number of the try."""
_OF_ONE_HOP: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
})  # fmt: skip
"""RFC 9110 section 7.6.1, and what is of no use behind this door."""
_OF_THE_UPSTREAM: Final = frozenset({b"set-cookie", b"set-cookie2", b"alt-svc"})
_KEYS_IN_QUERY: Final = frozenset({"key", "accesstoken", "apikey", "oauthtoken"})
_ANOTHER_IN_QUERY: Final = frozenset({"model", "fields", "callback", "httpmethod"})
"""Another model than the body's (LiteLLM's proxy), an answer without its usage or in a script's clothes, and another
method (cloud.google.com/apis/docs/system-parameters)."""
_NO_LETTER: Final = re.compile(r"[^a-z0-9]")
_JSON: Final = re.compile(r"application/json(?:\s*;\s*charset=\"?utf-8\"?)?\s*\Z", re.IGNORECASE)


class Asked(NamedTuple):
    """A checked request: whose it is, which destination, and the path and query behind the destination's name.

    `session` is empty for what loopd's connection to Mattermost reads for itself.

    `auth` is how the session's calls are authorised, or None for what the destination's own rule says.
    """

    session: str
    destination: str
    method: str
    path: str
    query: str
    trace: str | None
    headers: Came
    auth: Auth | None = None

    @property
    def target(self) -> str:
        """The path and query as they came."""
        return self.path + self.query


class Carried(NamedTuple):
    """What authorises a call: headers that are put on, the client's own that are passed, and what must not be seen."""

    put: tuple[tuple[bytes, bytes], ...] = ()
    passed: frozenset[bytes] = frozenset()
    secrets: tuple[bytes, ...] = ()
    """Held by egressd: masked in whatever goes back to the client, and in what is kept."""


def asked(request: Request) -> Asked:
    """What loopd asks for: `/<destination>/…`, with the session's name in a header, or the channel's.

    Raises:
        Fault: `request-invalid`, `websocket`.

    """
    came = came_with(request)
    sessions, channels = came.get(SESSION, []), came.get(CHANNEL, [])
    if not sessions and len(channels) == 1 and channels[0] in _CHANNELS:
        found = _asked(request, came, "", "", None)
    else:
        if channels or len(sessions) != 1 or not is_session_id(session := sessions[0].decode("latin-1")):
            raise Fault("request-invalid", "the request needs one X-Boxmaker-Session header with a session's id")
        found = _asked(request, came, session, "", None)
    root, _, rest = found.path.removeprefix("/").partition("/")
    if not root:
        raise Fault("request-invalid", "the path of the request begins with the name of a destination")
    return found._replace(destination=root, path=f"/{rest}")


def asked_on_own(request: Request, session: str, destination: str, auth: Auth | None) -> Asked:
    """What a program asks for on the socket of its session: the path is the API's own.

    Raises:
        Fault: `request-invalid`, `websocket`.

    """
    return _asked(request, came_with(request), session, destination, auth)


def is_upgrade(came: Came) -> bool:
    """Whether a client wants to speak WebSocket."""
    return b"websocket" in b",".join(came.get(b"upgrade", [])).lower()


def came_with(head: Request | Response) -> Came:
    """The headers of a head."""
    found: dict[bytes, list[bytes]] = {}
    for name, value in head.headers:
        found.setdefault(name.lower(), []).append(value)
    return found


def _asked(request: Request, came: Came, session: str, destination: str, auth: Auth | None) -> Asked:
    if session and is_upgrade(came):
        # A WebSocket is for what belongs to no session.
        raise Fault("websocket")
    if b"transfer-encoding" in came and b"content-length" in came:
        raise Fault("request-invalid", "the request has both Transfer-Encoding and Content-Length")
    if any(value.strip().lower() != b"identity" for value in came.get(b"content-encoding", [])):
        raise Fault("request-invalid", "the body of the request is compressed; what it names could not be read")
    path, mark, query = request.target.decode("ascii").partition("?")
    if not path.startswith("/"):
        raise Fault("request-invalid", "the path of the request begins with a slash")
    if _names_in(query) & _KEYS_IN_QUERY:
        raise Fault("request-invalid", "a key in a URL would be kept in logs; it goes into a header")
    traces = [value.decode("latin-1") for value in came.get(b"traceparent", [])]
    return Asked(
        session=session,
        destination=destination,
        method=request.method.decode("ascii"),
        path=path,
        query=mark + query,
        trace=traces[0] if len(traces) == 1 and is_traceparent(traces[0]) else None,
        headers=came,
        auth=auth,
    )


def check_model(asked: Asked) -> None:
    """Refuse a request to a model's API that says more in its head than the path and the body do.

    Raises:
        Fault: `request-invalid`.

    """
    kinds = asked.headers.get(b"content-type", [])
    if len(kinds) > 1 or not all(_JSON.match(kind.decode("latin-1")) for kind in kinds):
        # Read as a form, or in another charset, the body would say something else.
        raise Fault("request-invalid", "the Content-Type of the request is not application/json in UTF-8")
    if _names_in(asked.query) & _ANOTHER_IN_QUERY:
        raise Fault("request-invalid", "the query of the request would change what is asked")


def _names_in(query: str) -> set[str]:
    """The names of a query's fields, in small letters and digits alone."""
    if not query:
        return set()
    pairs = re.split("[&;]", query.removeprefix("?"))
    return {_NO_LETTER.sub("", unquote_plus(pair.partition("=")[0]).lower()) for pair in pairs}


def likely(came: Came, apis: Sequence[Api]) -> list[Api]:
    """APIs in the order in which a request may mean them: a list of models is at the same path in several."""
    anthropic = b"anthropic-version" in came
    return sorted(apis, key=lambda api: (api == "anthropic") is not anthropic)


def own_secrets(came: Came, carried: Carried) -> list[bytes]:
    """The client's own credentials that pass, without the scheme before them."""
    found = [value for name in carried.passed for value in came.get(name, [])]
    return [word for value in found if (word := value.rpartition(b" ")[2])]


def named_headers(request: Request, api: Api) -> Headers:
    """The headers of a client that go on and say nothing of who it is; also what is kept of a request."""
    allowed = TO_UPSTREAM[api]
    return [
        (name, value)
        for name, value in request.headers
        if (lower := name.lower()) in allowed or lower.startswith(_FAMILIES)
    ]


def for_upstream(
    request: Request,
    api: Api,
    authority: str,
    target: str,
    carried: Carried,
    body_bytes: int,
    *,
    keep: bool = False,
) -> Request:
    """The head that the upstream gets; it may keep the connection only where `keep` says so.

    An answer that is not compressed is asked for, so that a key in it can be masked and its text be kept.
    """
    headers: Headers = [(b"Host", authority.encode("ascii")), *named_headers(request, api)]
    headers += [(name, value) for name, value in request.headers if name.lower() in carried.passed]
    headers += [(b"Accept-Encoding", b"identity"), *carried.put]
    if body_bytes or request.method == b"POST":
        headers.append((b"Content-Length", str(body_bytes).encode("ascii")))
    if not keep:
        headers.append(CLOSE)
    return Request(request.method, target.encode("ascii"), headers)


def for_client(response: Response) -> Headers:
    """The headers that the client gets: those of the upstream but for those of one hop."""
    came = came_with(response)
    options = {option.strip().lower() for value in came.get(b"connection", []) for option in value.split(b",")}
    chunked = b"transfer-encoding" in came
    left_out = _OF_ONE_HOP | _OF_THE_UPSTREAM | options | ({b"content-length"} if chunked else set())
    return [(name, value) for name, value in response.headers if name.lower() not in left_out]
