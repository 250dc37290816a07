"""The two heads of HTTP before a tunnel: where a CONNECT wants to go, and the 200 (RFC 9110 section 9.3.6). No I/O."""

import ipaddress
import re
from typing import Final, NamedTuple

from egressd.wire.heads import came_with
from egressd.wire.http import Incoming, Request, Response
from proto.faults import Fault
from proto.urls import parse_url

_REASON: Final = b"Connection established"
_AUTHORITY: Final = re.compile(r"[^/?#]+:[0-9]{1,5}\Z")


class Authority(NamedTuple):
    """A host's name in ASCII and lower case, without a final dot, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """The host and the port, as brokerd is asked about them."""
        return f"{self.host}:{self.port}"

    @property
    def is_address(self) -> bool:
        """Whether it is an address in the place of a name."""
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return True


def asked_for(head: Request) -> Authority:
    """Where a CONNECT wants to go.

    Raises:
        Fault: `request-invalid`.

    """
    came = came_with(head)
    if b"transfer-encoding" in came or came.get(b"content-length", [b"0"]) != [b"0"]:
        raise Fault("request-invalid", "a CONNECT has no body")
    untrusted_target = head.target.decode("ascii")
    if not _AUTHORITY.match(untrusted_target):
        raise Fault("request-invalid", "a CONNECT asks for HOST:PORT")
    try:
        url = parse_url(f"https://{untrusted_target}")
    except ValueError as error:
        raise Fault("request-invalid", str(error)) from None
    return Authority(url.host, url.port)


def accepted(http: Incoming) -> tuple[bytes, bytes]:
    """The bytes of the 200, and what has come behind the CONNECT already."""
    return http.answer_switching(Response(200, [], _REASON)), http.behind
