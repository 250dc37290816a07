"""A refusal as an HTTP answer in the API's own shape, at a status on which clients stop after one try.

Never 401, 429 or 529: a client would ask for another key, or try again.
"""

from typing import Final

import h11
import msgspec

from proto.faults import Fault

_STATUS: Final = {
    "request-invalid": 400,
    "destination-unknown": 404,
    "route-unknown": 404,
    "request-too-large": 413,
    "internal": 500,
    "upstream-unreachable": 502,
    "busy": 503,
}
"""By code; whatever else there is stands on a decision's path, and is a denial."""
_DENIED: Final = 403
_TYPE: Final = {_DENIED: "permission_error", 500: "server_error", 502: "server_error", 503: "server_error"}


class Denied(Fault):
    """brokerd said no: a denial, whatever the code."""


def status_of(fault: Fault) -> int:
    """The HTTP status that tells of a fault."""
    return _DENIED if isinstance(fault, Denied) else _STATUS.get(fault.code, _DENIED)


def refusal(client: h11.Connection, fault: Fault) -> bytes:
    """The bytes of the answer that tells of a fault; none when the client has been told something already."""
    if client.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return b""
    status = status_of(fault)
    told = {"message": str(fault), "type": _TYPE.get(status, "invalid_request_error"), "code": fault.code}
    body = msgspec.json.encode({"error": told})
    headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
    ]
    head = client.send(h11.Response(status_code=status, headers=headers)) or b""
    try:
        return head + (client.send(h11.Data(data=body)) or b"")
    except h11.LocalProtocolError:  # HEAD has no body
        return head
