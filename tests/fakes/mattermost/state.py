"""What a Mattermost server knows: people, channels, posts, reactions, files; and the events that it tells of them.

Values are maps with the fields of Mattermost's own JSON. Times are milliseconds, ids 26 characters of `[a-z0-9]`.
"""

import json
import secrets
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests.fakes.mattermost.faults import Faults

Map = dict[str, Any]
_LETTERS: Final = "ybndrfg8ejkmcpqxot1uwisza345h769"
"""Of zbase32, in which the server writes its ids."""


class Refused(Exception):
    """An error in the server's own shape."""

    def __init__(self, status: int, id: str, message: str) -> None:
        self.status = status
        self.id = id
        self.message = message
        super().__init__(message)


class Event(NamedTuple):
    """What is told over WebSocket: its name, its data, and who gets it (the members of a channel, or one user)."""

    name: str
    data: Map
    channel_id: str = ""
    user_id: str = ""
    not_to: str = ""


def new_id() -> str:
    """An id."""
    return "".join(secrets.choice(_LETTERS) for _ in range(26))


def missing(what: str) -> Refused:
    """The error for what is not there."""
    return Refused(404, f"app.{what}.get.app_error", f"Unable to get the {what}.")


def forbidden() -> Refused:
    """The error for what one may not do."""
    return Refused(403, "api.context.permissions.app_error", "You do not have the appropriate permissions.")


def invalid(name: str) -> Refused:
    """The error for a body that does not fit."""
    return Refused(400, "api.context.invalid_body_param.app_error", f"Invalid or missing {name} in request body.")


class State:
    """The server's state. Methods that change it tell their events to `on_event`."""

    def __init__(self, faults: Faults, on_event: Callable[[Event], None]) -> None:
        self.users: dict[str, Map] = {}
        self.tokens: dict[str, str] = {}
        """The user of each token."""
        self.team: Map = {**self._made(), "name": "home", "display_name": "Home", "type": "O"}
        self.channels: dict[str, Map] = {}
        self.members: dict[str, list[str]] = {}
        self.posts: dict[str, Map] = {}
        """Every post in the order in which they were made."""
        self.files: dict[str, tuple[Map, bytes]] = {}
        self._pending: dict[tuple[str, str], str] = {}
        self._faults = faults
        self._tell = on_event

    def now_ms(self) -> int:
        """The time."""
        return time.time_ns() // 1_000_000 if self._faults.frozen_ms is None else self._faults.frozen_ms

    def _made(self) -> Map:
        now = time.time_ns() // 1_000_000
        return {"id": new_id(), "create_at": now, "update_at": now, "delete_at": 0}

    # People and channels.

    def add_user(self, username: str, *, is_bot: bool = False) -> Map:
        """A user."""
        user = {
            **self._made(),
            "username": username,
            "first_name": "",
            "last_name": "",
            "nickname": "",
            "email": f"{username}@localhost",
            "roles": "system_user",
            "locale": "en",
            **({"is_bot": True, "bot_description": ""} if is_bot else {}),
        }
        self.users[user["id"]] = user
        return user

    def add_token(self, user_id: str) -> str:
        """A token of a user."""
        token = new_id()
        self.tokens[token] = user_id
        return token

    def add_channel(self, kind: str, name: str, members: list[str]) -> Map:
        """A channel: O (open), P (private), D (direct), G (group)."""
        channel = {
            **self._made(),
            "team_id": "" if kind in "DG" else self.team["id"],
            "type": kind,
            "name": name,
            "display_name": "" if kind == "D" else name,
            "header": "",
            "purpose": "",
            "last_post_at": 0,
            "total_msg_count": 0,
            "creator_id": members[0] if members else "",
        }
        self.channels[channel["id"]] = channel
        self.members[channel["id"]] = list(members)
        return channel

    def direct(self, one: str, other: str) -> Map:
        """The direct channel of two users, made if need be."""
        name = "__".join(sorted((one, other)))
        found = next((channel for channel in self.channels.values() if channel["name"] == name), None)
        return found or self.add_channel("D", name, [one, other])

    def channel(self, id: str, user_id: str) -> Map:
        """A channel that a user is in."""
        if id not in self.channels:
            raise missing("channel")
        if user_id not in self.members[id]:
            raise forbidden()
        return self.channels[id]

    def user(self, id: str) -> Map:
        """A user by id."""
        if id not in self.users:
            raise missing("user")
        return self.users[id]

    # Posts.

    def post(self, id: str, user_id: str) -> Map:
        """A post that is there, in a channel that a user is in."""
        post = self.posts.get(id)
        if post is None or post["delete_at"]:
            raise missing("post")
        self.channel(post["channel_id"], user_id)
        return post

    def create(self, user_id: str, body: Map, kind: str = "") -> Map:
        """A new post, as its author asks for it; the same `pending_post_id` gives the same post."""
        channel = self.channel(body["channel_id"], user_id)
        pending, message, root_id = (
            body.get("pending_post_id") or "",
            body.get("message") or "",
            body.get("root_id") or "",
        )
        if pending and (user_id, pending) in self._pending:
            return self.posts[self._pending[user_id, pending]]
        self._check_message(message)
        root = self.posts.get(root_id) if root_id else None
        if root_id and (root is None or root["delete_at"] or root["root_id"] or root["channel_id"] != channel["id"]):
            raise Refused(400, "api.post.create_post.root_id.app_error", "Invalid RootId parameter.")
        file_ids = [one for one in body.get("file_ids") or [] if one in self.files]
        now = self.now_ms()
        post = {
            "id": new_id(),
            "create_at": now,
            "update_at": now,
            "edit_at": 0,
            "delete_at": 0,
            "is_pinned": False,
            "user_id": user_id,
            "channel_id": channel["id"],
            "root_id": root_id,
            "original_id": "",
            "message": message,
            "type": kind,
            "props": dict(body.get("props") or {}),
            "hashtags": "",
            "file_ids": file_ids,
            "pending_post_id": pending,
            "reply_count": 0,
            "last_reply_at": 0,
            "participants": None,
            "metadata": {"files": [self.files[one][0] for one in file_ids]} if file_ids else {},
        }
        if self.users[user_id].get("is_bot"):
            post["props"]["from_bot"] = "true"
        self.posts[post["id"]] = post
        if pending:
            self._pending[user_id, pending] = post["id"]
        if root is not None:
            root["reply_count"] += 1
            root["last_reply_at"] = root["update_at"] = now
        channel["last_post_at"] = now
        channel["total_msg_count"] += 1
        self._tell_posted(post, channel)
        return post

    def forget_pending(self) -> None:
        """Forget which `pending_post_id`s were used."""
        self._pending.clear()

    def edit(self, id: str, user_id: str, changes: Map) -> Map:
        """Change what is named of a post of one's own."""
        post = self.post(id, user_id)
        if post["user_id"] != user_id:
            raise forbidden()
        self._check_message(changes.get("message") or "")
        now = max(self.now_ms(), post["update_at"] + 1)
        if "message" in changes and changes["message"] != post["message"]:
            post["edit_at"] = now
        post.update(
            {
                name: changes[name]
                for name in ("message", "props", "file_ids", "is_pinned")
                if changes.get(name) is not None
            }
        )
        post["update_at"] = now
        self._tell_of(post, "post_edited")
        return post

    def delete(self, id: str, user_id: str) -> None:
        """Delete a post, and with a thread's first one the thread."""
        post = self.post(id, user_id)
        if post["user_id"] != user_id:
            raise forbidden()
        now = max(self.now_ms(), post["update_at"] + 1)
        for other in self.posts.values():
            if id in (other["id"], other["root_id"]) and not other["delete_at"]:
                other["delete_at"] = other["update_at"] = now
        self._tell_of(post, "post_deleted")

    def react(self, user_id: str, post_id: str, emoji: str) -> Map:
        """Put a reaction on a post; once for each user and emoji."""
        post = self.post(post_id, user_id)
        reactions: list[Map] = post["metadata"].setdefault("reactions", [])
        for reaction in reactions:
            if (reaction["user_id"], reaction["emoji_name"]) == (user_id, emoji):
                return reaction
        now = self.now_ms()
        new = {
            "user_id": user_id,
            "post_id": post_id,
            "emoji_name": emoji,
            "create_at": now,
            "update_at": now,
            "delete_at": 0,
            "remote_id": "",
            "channel_id": post["channel_id"],
        }
        reactions.append(new)
        post["has_reactions"], post["update_at"] = True, max(now, post["update_at"])
        self._tell(Event("reaction_added", {"reaction": json.dumps(new)}, post["channel_id"]))
        return new

    def unreact(self, user_id: str, post_id: str, emoji: str) -> None:
        """Take a reaction away."""
        post = self.post(post_id, user_id)
        reactions: list[Map] = post["metadata"].get("reactions", [])
        for reaction in list(reactions):
            if (reaction["user_id"], reaction["emoji_name"]) == (user_id, emoji):
                reactions.remove(reaction)
                self._tell(Event("reaction_removed", {"reaction": json.dumps(reaction)}, post["channel_id"]))
        post["has_reactions"] = bool(reactions)

    def type_(self, user_id: str, channel_id: str, parent_id: str) -> None:
        """Tell the others in a channel that somebody types."""
        self.channel(channel_id, user_id)
        self._tell(Event("typing", {"parent_id": parent_id, "user_id": user_id}, channel_id, not_to=user_id))

    def upload(self, user_id: str, channel_id: str, name: str, data: bytes) -> Map:
        """Keep a file for a post that will name it."""
        self.channel(channel_id, user_id)
        if len(data) > self._faults.max_file_bytes:
            raise Refused(
                413, "api.file.upload_file.too_large_detailed.app_error", "Unable to upload file. File is too large."
            )
        info = {
            **self._made(),
            "user_id": user_id,
            "channel_id": channel_id,
            "name": name,
            "extension": name.rpartition(".")[2] if "." in name else "",
            "size": len(data),
            "mime_type": "text/plain" if name.endswith((".txt", ".md", ".log")) else "application/octet-stream",
            "has_preview_image": False,
        }
        self.files[info["id"]] = (info, data)
        return info

    def _check_message(self, message: str) -> None:
        if not isinstance(message, str):
            raise invalid("message")
        if len(message) > self._faults.max_post_chars:
            most = self._faults.max_post_chars
            text = f"Post Message property is longer than the maximum permitted length of {most} characters."
            raise Refused(400, "model.post.is_valid.message_length.app_error", text)

    def _tell_of(self, post: Map, name: str) -> None:
        self._tell(Event(name, {"post": json.dumps(post)}, post["channel_id"]))

    def _tell_posted(self, post: Map, channel: Map) -> None:
        author = self.users[post["user_id"]]
        mentioned = [
            one
            for one in self.members[channel["id"]]
            if one != author["id"] and (channel["type"] == "D" or f"@{self.users[one]['username']}" in post["message"])
        ]
        data = {
            "channel_display_name": channel["display_name"] or f"@{author['username']}",
            "channel_name": channel["name"],
            "channel_type": channel["type"],
            "post": json.dumps(post),
            "sender_name": f"@{author['username']}",
            "set_online": True,
            "team_id": channel["team_id"],
            **({"mentions": json.dumps(mentioned)} if mentioned else {}),
        }
        self._tell(Event("posted", data, channel["id"]))
