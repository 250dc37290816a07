"""What a server says of itself and is kept: who the bot is, which channel a post is in, what kind a channel is.

Kept for as long as the destination and its token stay the same. None of it changes on the server: a post stays in its
channel, and a direct channel has two members for ever, whose ids are its name.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final, TypeVar

import msgspec

from proto import forms
from proto.faults import Fault
from proto.ids import MattermostId

Look = Callable[[str], Awaitable[bytes]]
"""The body of the server's answer to GET of a path under /api/v4/."""
T = TypeVar("T")
_MOST_KEPT: Final = 4_096


class _User(msgspec.Struct, frozen=True):
    id: MattermostId


class _Post(msgspec.Struct, frozen=True):
    channel_id: MattermostId


class _Channel(msgspec.Struct, frozen=True):
    type: str
    name: Annotated[str, msgspec.Meta(max_length=256)]


class Known:
    """What is known of one server, as one bot."""

    def __init__(self) -> None:
        self._me: str | None = None
        self._posts: dict[str, str] = {}
        self._channels: dict[str, _Channel] = {}

    async def channel_of(self, post: str, look: Look) -> str:
        """The channel that a post is in.

        Raises:
            Fault: `upstream-unreachable`: the answer is no post's.

        """
        if post not in self._posts:
            found = _read(await look(f"posts/{post}"), _Post)
            _keep(self._posts, post, found.channel_id)
        return self._posts[post]

    async def is_direct(self, channel: str, owner: str, look: Look) -> bool:
        """Whether a channel is the direct one of the bot and its owner, so that nobody else reads it.

        Raises:
            Fault: `upstream-unreachable`: the answer is no channel's.

        """
        if channel not in self._channels:
            _keep(self._channels, channel, _read(await look(f"channels/{channel}"), _Channel))
        found = self._channels[channel]
        if found.type != "D":
            return False
        if self._me is None:
            self._me = _read(await look("users/me"), _User).id
        # The name of a direct channel, as the server makes it of its members' ids.
        return owner != self._me and sorted(found.name.split("__")) == sorted((owner, self._me))


def _read(data: bytes, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = forms.in_words(str(error))
        raise Fault(
            "upstream-unreachable", f"the Mattermost server gave an answer that cannot be read: {why}"
        ) from None


def _keep(kept: dict[str, T], key: str, value: T) -> None:
    kept[key] = value
    if len(kept) > _MOST_KEPT:
        # The one that was kept first.
        del kept[next(iter(kept))]
