"""What a request to Mattermost names: its body in the form that its route has, and the channel that it would post in.

A body that two readers could read in two ways is refused (`egressd.bodies`). Pure.
"""

import re
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from egressd.bodies import Object, field, parse
from egressd.mattermost.routes import Form, Route
from proto.faults import Fault

_ID: Final = re.compile(r"[a-z0-9]{26}")
_NAME: Final = re.compile(r"[a-z][a-z0-9._-]{0,63}")
_MOST_IN_A_LIST: Final = 200
_TYPING: Final = frozenset({"channel_id", "parent_id"})
_SPOKEN: Final = "over the WebSocket only typing is told, and ping"


class Named(NamedTuple):
    """The channel that is posted in, or the post that is in it; neither for what posts nothing."""

    channel: str | None = None
    post: str | None = None


def named(route: Route, query: str, data: bytes) -> Named:
    """What a request names; `query` is what stands behind the `?`.

    Raises:
        Fault: `request-invalid`: the body has not the route's form, or the channel cannot be read of it.

    """
    body = _body(route.form, data)
    match route.where:
        case "body":
            return Named(channel=_id(field(body, "channelid"), "channel_id"))
        case "post-in-body":
            return Named(post=_id(field(body, "postid"), "post_id"))
        case "post-in-path":
            return Named(post=route.post)
        case "query":
            return Named(channel=_queried(query))
        case "":
            return Named()


def check_spoken(data: bytes) -> None:
    """Let pass a message for the server's WebSocket: who types where, and `ping`. Nothing of a session is in either.

    Raises:
        Fault: `request-invalid`.

    """
    message = parse(data)
    action, told = message.get("action"), message.get("data", Object())
    if (
        not set(message) <= {"action", "data", "seq"}
        or type(message.get("seq", 0)) is not int
        or not isinstance(told, Object)
    ):
        raise Fault("request-invalid", _SPOKEN)
    if action != "user_typing" and (action != "ping" or told):
        raise Fault("request-invalid", _SPOKEN)
    _check_typing(told)


def _check_typing(told: Object) -> None:
    if not set(told) <= _TYPING or not all(_is_id(value) or value == "" for value in told.values()):
        raise Fault("request-invalid", "typing is told with channel_id and parent_id alone")


def _body(form: Form, data: bytes) -> Object:
    """The object that a body is; empty for other forms, which are checked."""
    match form:
        case "object":
            body = parse(data)
            # Go, in which the server is written, takes some letters that are not ASCII for an `s` or a `k`.
            if not all(map(str.isascii, body)):
                raise Fault("request-invalid", "the body of the request has a field whose name is not ASCII")
            return body
        case "typing":
            _check_typing(parse(data))
        case "ids" | "names":
            _check_list(data, _ID if form == "ids" else _NAME)
        case "nothing":
            if data:
                raise Fault("request-invalid", "the request has a body and should have none")
        case "bytes":
            pass
    return Object()


def _check_list(data: bytes, wanted: re.Pattern[str]) -> None:
    try:
        values = msgspec.json.decode(data, type=list[str])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Fault("request-invalid", "the body of the request is not a list of texts") from None
    if len(values) > _MOST_IN_A_LIST or not all(map(wanted.fullmatch, values)):
        raise Fault("request-invalid", "the body of the request names what is no id or name")


def _queried(query: str) -> str:
    """The channel of an upload: the form in which its whole body is one file's content."""
    pairs = parse_qsl(query, keep_blank_values=True)
    values = {name: [value for key, value in pairs if key == name] for name, _ in pairs}
    if sorted(values) != ["channel_id", "filename"] or any(len(found) != 1 for found in values.values()):
        raise Fault("request-invalid", "a file is uploaded with channel_id and filename in the query, and nothing else")
    return _id(values["channel_id"][0], "channel_id")


def _id(value: Any, name: str) -> str:
    if not isinstance(value, str) or not _is_id(value):
        raise Fault("request-invalid", f"{name} of the request is no id")
    return value


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None
