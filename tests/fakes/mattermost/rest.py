"""The REST API: a table of routes over the state. No I/O."""

import json
import re
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import HTTP
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from tests.fakes.mattermost.lists import of_channel, of_thread
from tests.fakes.mattermost.state import Map, Refused, State, forbidden, invalid, missing, new_id


class Request(NamedTuple):
    """A request as it came; `path` without its query."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body's value."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise invalid("body") from None

    @property
    def map(self) -> Map:
        """The body's object."""
        value = self.json
        if not isinstance(value, dict):
            raise invalid("body")
        return value

    @property
    def list(self) -> list[str]:
        """The body's list."""
        value = self.json
        if not isinstance(value, list):
            raise invalid("body")
        return value


class Answer(NamedTuple):
    """An answer: a value as JSON, or bytes as they are."""

    status: int
    value: Any
    headers: Mapping[str, str] = MappingProxyType({})


class Who(NamedTuple):
    """Whose request it is, with what is in its path."""

    user_id: str
    path: dict[str, str]
    state: State
    request: Request

    @property
    def named_user(self) -> str:
        """The user in the path; `me` is oneself."""
        named = self.path["user"]
        return self.user_id if named == "me" else named

    @property
    def self_alone(self) -> str:
        """The user in the path, who must be oneself."""
        if self.named_user != self.user_id:
            raise forbidden()
        return self.user_id


Act = Callable[[Who], Answer]
_ID: Final = "[a-z0-9]{26}"
_PARTS: Final = {
    "{user}": rf"(?P<user>me|{_ID})",
    "{name}": r"(?P<name>[a-z0-9._-]{1,64})",
    "{emoji}": r"(?P<emoji>[a-z0-9_+-]{1,64})",
}
_OK: Final = Answer(200, {"status": "OK"})
NO_LOGIN: Final = frozenset(
    {("GET", "/api/v4/system/ping"), ("GET", "/api/v4/config/client"), ("POST", "/api/v4/users/login")}
)


def answer(request: Request, user_id: str | None, state: State) -> Answer:
    """What the server says to a request of a user, or of nobody."""
    try:
        if user_id is None and (request.method, request.path) not in NO_LOGIN:
            raise Refused(
                401, "api.context.session_expired.app_error", "Invalid or expired session, please login again."
            )
        for method, pattern, act in ROUTES:
            if method == request.method and (found := pattern.fullmatch(request.path)):
                return act(Who(user_id or "", found.groupdict(), state, request))
        raise Refused(404, "api.context.404.app_error", "Sorry, we could not find the page.")
    except Refused as refused:
        return Answer(refused.status, error_of(refused))


def error_of(refused: Refused) -> Map:
    """An error as the server writes it."""
    return {
        "id": refused.id,
        "message": refused.message,
        "detailed_error": "",
        "request_id": new_id(),
        "status_code": refused.status,
    }


def query_of(text: str) -> dict[str, str]:
    """A query's parameters."""
    return dict(parse_qsl(text, keep_blank_values=True))


def _create_post(who: Who) -> Answer:
    body = who.request.map
    if not isinstance(body.get("channel_id"), str):
        raise invalid("channel_id")
    return Answer(201, who.state.create(who.user_id, body))


def _update_post(who: Who) -> Answer:
    if who.request.map.get("id") != who.path["id"]:
        raise invalid("id")
    return Answer(200, who.state.edit(who.path["id"], who.user_id, who.request.map))


def _delete_post(who: Who) -> Answer:
    who.state.delete(who.path["id"], who.user_id)
    return _OK


def _save_reaction(who: Who) -> Answer:
    body = who.request.map
    if body.get("user_id") != who.user_id:
        raise forbidden()
    if not re.fullmatch(r"[a-z0-9_+-]{1,64}", str(body.get("emoji_name"))):
        raise invalid("reaction")
    return Answer(201, who.state.react(who.user_id, str(body.get("post_id")), body["emoji_name"]))


def _delete_reaction(who: Who) -> Answer:
    who.state.unreact(who.self_alone, who.path["id"], who.path["emoji"])
    return _OK


def _typing(who: Who) -> Answer:
    body = who.request.map
    who.state.type_(who.self_alone, body.get("channel_id", ""), body.get("parent_id", ""))
    return _OK


def _upload(who: Who) -> Answer:
    query = who.request.query
    if "filename" in query:
        files, channel_id, client_ids = [(query["filename"], who.request.body)], query.get("channel_id", ""), []
    else:
        files, fields = _form(who.request)
        channel_id, client_ids = fields.get("channel_id", ""), [fields["client_ids"]] if "client_ids" in fields else []
    infos = [who.state.upload(who.user_id, channel_id, name, data) for name, data in files]
    return Answer(201, {"file_infos": infos, "client_ids": client_ids})


def _form(request: Request) -> tuple[list[tuple[str, bytes]], dict[str, str]]:
    head = f"Content-Type: {request.headers.get('content-type', '')}\r\n\r\n".encode("latin-1")
    message = BytesParser(EmailMessage, policy=HTTP).parsebytes(head + request.body)
    files, fields = [], {}
    for part in message.iter_parts():
        data = part.get_payload(decode=True)
        name = part.get_param("name", header="content-disposition")
        if not isinstance(data, bytes):
            raise invalid("form")
        if (filename := part.get_filename()) is not None:
            files.append((filename, data))
        else:
            fields[str(name)] = data.decode()
    return files, fields


def _file(who: Who) -> tuple[Map, bytes]:
    found = who.state.files.get(who.path["id"])
    if found is None:
        raise missing("file_info")
    return found


def _members(who: Who) -> Answer:
    channel = who.state.channel(who.path["id"], who.user_id)
    plain = {
        "roles": "channel_user",
        "last_viewed_at": 0,
        "msg_count": 0,
        "mention_count": 0,
        "notify_props": {},
        "last_update_at": 0,
    }
    members = [{"channel_id": channel["id"], "user_id": one, **plain} for one in who.state.members[channel["id"]]]
    size, page = int(who.request.query.get("per_page", 60)), int(who.request.query.get("page", 0))
    return Answer(200, members[page * size : (page + 1) * size])


def _channels(who: Who) -> Answer:
    own = [one for one, members in who.state.members.items() if who.self_alone in members]
    team = who.path.get("id")
    found = [who.state.channels[one] for one in own]
    return Answer(200, [one for one in found if team is None or one["team_id"] in ("", team)])


def _direct(who: Who) -> Answer:
    ids = who.request.list
    if len(ids) != 2 or who.user_id not in ids:
        raise invalid("user_ids")
    return Answer(201, who.state.direct(who.state.user(ids[0])["id"], who.state.user(ids[1])["id"]))


def _by_name(who: Who) -> Answer:
    found = next((user for user in who.state.users.values() if user["username"] == who.path["name"]), None)
    if found is None:
        raise missing("user")
    return Answer(200, found)


def _login(who: Who) -> Answer:
    login, password = who.request.map.get("login_id"), who.request.map.get("password")
    for user in who.state.users.values():
        if login in (user["username"], user["email"]) and password == f"password of {user['username']}":
            return Answer(200, user, {"Token": who.state.add_token(user["id"])})
    raise Refused(
        401, "api.user.login.invalid_credentials_email_username", "Enter a valid email or username and/or password."
    )


def _client_config(who: Who) -> Answer:
    return Answer(
        200, {"MaxPostSize": str(who.state._faults.max_post_chars), "SiteName": "Mattermost", "Version": "11.9.0"}
    )


def _users(key: str) -> Act:
    return lambda who: Answer(200, [user for user in who.state.users.values() if user[key] in who.request.list])


def _post(who: Who) -> Map:
    return who.state.post(who.path["id"], who.user_id)


def _of_channel(who: Who) -> Answer:
    channel = who.state.channel(who.path["id"], who.user_id)
    return Answer(200, of_channel(who.state, channel["id"], who.request.query))


def _row(method: str, path: str, act: Act) -> tuple[str, re.Pattern[str], Act]:
    pattern = re.escape(f"/api/v4/{path}")
    for part, meaning in {**_PARTS, "{id}": rf"(?P<id>{_ID})", "{other}": rf"(?P<other>{_ID})"}.items():
        pattern = pattern.replace(re.escape(part), meaning)
    return method, re.compile(pattern), act


ROUTES: Final = (
    _row(
        "GET",
        "system/ping",
        lambda _: Answer(200, {"status": "OK", "AndroidLatestVersion": "", "IosLatestVersion": ""}),
    ),
    _row("GET", "config/client", _client_config),
    _row("POST", "users/login", _login),
    _row("POST", "users/usernames", _users("username")),
    _row("POST", "users/ids", _users("id")),
    _row("GET", "users/username/{name}", _by_name),
    _row("GET", "users/{user}", lambda who: Answer(200, who.state.user(who.named_user))),
    _row("POST", "users/{user}/typing", _typing),
    _row("GET", "users/{user}/teams", lambda who: Answer(200, [who.state.team])),
    _row("GET", "users/{user}/channels", _channels),
    _row("GET", "users/{user}/teams/{id}/channels", _channels),
    _row("DELETE", "users/{user}/posts/{id}/reactions/{emoji}", _delete_reaction),
    _row("POST", "channels/direct", _direct),
    _row("GET", "channels/{id}", lambda who: Answer(200, who.state.channel(who.path["id"], who.user_id))),
    _row("GET", "channels/{id}/members", _members),
    _row("GET", "channels/{id}/posts", _of_channel),
    _row("POST", "posts", _create_post),
    _row("GET", "posts/{id}", lambda who: Answer(200, _post(who))),
    _row("PUT", "posts/{id}", _update_post),
    _row(
        "PUT", "posts/{id}/patch", lambda who: Answer(200, who.state.edit(who.path["id"], who.user_id, who.request.map))
    ),
    _row("DELETE", "posts/{id}", _delete_post),
    _row("GET", "posts/{id}/thread", lambda who: Answer(200, of_thread(who.state, _post(who), who.request.query))),
    _row("GET", "posts/{id}/reactions", lambda who: Answer(200, _post(who)["metadata"].get("reactions", []))),
    _row("POST", "reactions", _save_reaction),
    _row("POST", "files", _upload),
    _row("GET", "files/{id}", lambda who: Answer(200, _file(who)[1])),
    _row("GET", "files/{id}/info", lambda who: Answer(200, _file(who)[0])),
)
"""What there is; anything else is 404."""
