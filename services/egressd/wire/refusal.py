"""A refusal as an HTTP answer in the API's own shape, at a status on which clients stop after one try.

Never 401, 429 or 529: a client would ask for another key, or try again.
"""

from typing import Any, Final

import msgspec

from egressd.wire.http import Headers, Incoming, Response
from proto.faults import Fault
from proto.rules import Api

_STATUS: Final = {
    "request-invalid": 400,
    "destination-unknown": 404,
    "route-unknown": 404,
    "request-too-large": 413,
    "websocket": 426,
    "internal": 500,
    "upstream-unreachable": 502,
    "busy": 503,
}
"""By code; whatever else there is stands on a decision's path, and is a denial."""
DENIED: Final = 403
OF_THE_CLIENT: Final = (400, 404, 413, 426)
"""What only the client can put right is not worth a line in the log."""
_DENIED_BY_API: Final[dict[Api, int]] = {"openai-responses": 400}
"""Codex stops after one try at 400 alone; any other status it tries again (facts, harnesses, pitfall 11)."""
_PERMISSION: Final = "permission_error"
_OPENAI: Final = {DENIED: _PERMISSION, 500: "server_error", 502: "server_error", 503: "server_error"}
_ANTHROPIC: Final = {
    DENIED: _PERMISSION, 404: "not_found_error", 413: "request_too_large", 500: "api_error", 502: "api_error",
    503: "api_error",
}  # fmt: skip
_GOOGLE: Final = {
    400: "INVALID_ARGUMENT", DENIED: "PERMISSION_DENIED", 404: "NOT_FOUND", 413: "INVALID_ARGUMENT",
    426: "FAILED_PRECONDITION", 500: "INTERNAL", 502: "UNAVAILABLE", 503: "UNAVAILABLE",
}  # fmt: skip
"""docs.anthropic.com "Errors"; google/rpc/code.proto."""


class Denied(Fault):
    """brokerd said no: a denial, whatever the code."""


def status_of(fault: Fault, api: Api = "openai-chat") -> int:
    """The HTTP status that tells of a fault."""
    status = DENIED if isinstance(fault, Denied) else _STATUS.get(fault.code, DENIED)
    return _DENIED_BY_API.get(api, status) if status == DENIED else status


def refusal(client: Incoming, fault: Fault, api: Api = "openai-chat") -> bytes:
    """The bytes of the answer that tells of a fault; none when the client has been told something already."""
    if client.answered:
        return b""
    status = status_of(fault, api)
    headers: Headers = [(b"Content-Type", b"application/json")]
    if status == 426:
        headers.append((b"Upgrade", b"HTTP/1.1"))
    return client.answer_whole(Response(status, headers), msgspec.json.encode(_told(fault, status, api)))


def _told(fault: Fault, status: int, api: Api) -> dict[str, Any]:
    kind = DENIED if status_of(fault) == DENIED else status
    match api:
        case "anthropic":
            error = {"type": _ANTHROPIC.get(kind, "invalid_request_error"), "message": str(fault)}
            return {"type": "error", "error": error}
        case "gemini" | "code-assist":
            return {"error": {"code": status, "message": str(fault), "status": _GOOGLE.get(kind, "UNKNOWN")}}
        case "mattermost":
            # model.AppError of the server, under ids of our own.
            told = {"id": f"boxmaker.{fault.code}", "message": str(fault), "detailed_error": "", "request_id": ""}
            return {**told, "status_code": status}
        case _:
            return {
                "error": {
                    "message": str(fault),
                    "type": _OPENAI.get(kind, "invalid_request_error"),
                    "code": fault.code,
                }
            }
