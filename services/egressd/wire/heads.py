"""What of a head goes on: checked heads of clients, the head for the upstream, the head for the client. No I/O.

A head is never passed on; a new one is made of the parts that are named here, so that nothing can be smuggled in it.
"""

from typing import Final, NamedTuple

import h11

from proto.faults import Fault
from proto.ids import is_session_id, is_traceparent

Headers = list[tuple[bytes, bytes]]

SESSION: Final = b"x-boxmaker-session"
_TO_UPSTREAM: Final = frozenset({
    b"accept", b"content-type", b"idempotency-key", b"openai-beta", b"openai-organization", b"openai-project",
    b"user-agent",
})  # fmt: skip
"""The headers of a request that go on; the client's own keys, cookies and everything else do not."""
_OF_ONE_HOP: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
})  # fmt: skip
"""RFC 9110 section 7.6.1, and what is of no use behind this door."""
_OF_THE_UPSTREAM: Final = frozenset({b"set-cookie", b"set-cookie2", b"alt-svc"})


class Asked(NamedTuple):
    """A checked request: whose it is, which destination, and the path and query behind the destination's name."""

    session: str
    destination: str
    method: str
    path: str
    query: str
    trace: str | None

    @property
    def target(self) -> str:
        """The path and query as they came."""
        return self.path + self.query


def asked(request: h11.Request) -> Asked:
    """What a client asks for.

    Raises:
        Fault: `request-invalid`.

    """
    names = [name for name, _ in request.headers]
    sessions = [value for name, value in request.headers if name == SESSION]
    if len(sessions) != 1 or not is_session_id(session := sessions[0].decode("latin-1")):
        raise Fault("request-invalid", "the request needs one X-Boxmaker-Session header with a session's id")
    if b"transfer-encoding" in names and b"content-length" in names:
        raise Fault("request-invalid", "the request has both Transfer-Encoding and Content-Length")
    target = request.target.decode("ascii")
    path, mark, query = target.partition("?")
    root, _, rest = path.removeprefix("/").partition("/")
    if not path.startswith("/") or not root:
        raise Fault("request-invalid", "the path of the request begins with the name of a destination")
    traces = [value.decode("latin-1") for name, value in request.headers if name == b"traceparent"]
    trace = traces[0] if len(traces) == 1 and is_traceparent(traces[0]) else None
    return Asked(
        session=session,
        destination=root,
        method=request.method.decode("ascii"),
        path=f"/{rest}",
        query=mark + query,
        trace=trace,
    )


def for_upstream(request: h11.Request, authority: str, target: str, key: str | None, body_bytes: int) -> h11.Request:
    """The head that the upstream gets; an answer that is not compressed is asked for, so that it can be metered."""
    headers: Headers = [(b"Host", authority.encode("ascii"))]
    headers += [(name, value) for name, value in request.headers.raw_items() if name.lower() in _TO_UPSTREAM]
    headers.append((b"Accept-Encoding", b"identity"))
    if key is not None:
        headers.append((b"Authorization", b"Bearer " + key.encode("ascii")))
    if body_bytes or request.method == b"POST":
        headers.append((b"Content-Length", str(body_bytes).encode("ascii")))
    headers.append((b"Connection", b"close"))
    return h11.Request(method=request.method, target=target, headers=headers)


def for_client(response: h11.Response) -> Headers:
    """The headers that the client gets: those of the upstream but for those of one hop."""
    named = {
        option.strip().lower()
        for name, value in response.headers
        if name == b"connection"
        for option in value.split(b",")
    }
    chunked = any(name == b"transfer-encoding" for name, _ in response.headers)
    left_out = _OF_ONE_HOP | _OF_THE_UPSTREAM | named | ({b"content-length"} if chunked else set())
    return [(name, value) for name, value in response.headers.raw_items() if name.lower() not in left_out]
