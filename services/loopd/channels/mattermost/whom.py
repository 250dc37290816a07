"""Who is answered, and which words and reactions are an order; pure."""

import re
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Final, NamedTuple

from loopd.channels.mattermost.posts import Post
from loopd.config import Answer

_APPROVE: Final = frozenset({"white_check_mark", "+1", "thumbsup"})
_DENY: Final = frozenset({"x", "-1", "thumbsdown"})
_STOP: Final = frozenset({"octagonal_sign", "stop_sign"})
_SKIN: Final = re.compile(r"(_(light|medium_light|medium|medium_dark|dark)_skin_tone)\Z")
_TRIMMED: Final = " \t\n\r.!"


class Order(Enum):
    """What a word or a reaction tells the box to do."""

    APPROVE = "approve"
    DENY = "deny"
    STOP = "stop"


class People(NamedTuple):
    """Who is who: user ids, the bot's own name without `@`, and when whom is answered."""

    me: str
    name: str
    owner: str
    users: AbstractSet[str] = frozenset()
    channels: AbstractSet[str] = frozenset()
    answer: Answer = "mention"
    answer_owner: Answer = "all"


def is_written(people: People, post: Post) -> bool:
    """Whether a person wrote a post: no system message, nothing deleted, and none of our own, which bear our mark."""
    return bool(post.user and post.text.strip()) and not (
        post.kind or post.deleted or post.key or post.user == people.me
    )


def is_heard(people: People, post: Post) -> bool:
    """Whether anything may come of a post: a person wrote it, and one that is listened to."""
    if not is_written(people, post):
        return False
    return post.user == people.owner or post.user in people.users or post.channel in people.channels


def is_answered(people: People, post: Post, *, direct: bool, begun: bool) -> bool:
    """Whether a post that is heard gets an answer; `begun` says that its thread is a session already."""
    if direct or is_mention(people.name, post.text):
        return True
    rule = people.answer_owner if post.user == people.owner else people.answer
    return rule == "all" or (rule == "thread" and begun)


def is_mention(name: str, text: str) -> bool:
    """Whether a text calls the bot by `@name`."""
    return re.search(rf"(?<![\w@.-])@{re.escape(name)}(?![\w-])(?!\.\w)", text, re.IGNORECASE) is not None


def order_of_text(text: str) -> Order | None:
    """The order that a post is, when it is one word and nothing more (a slash never reaches a bot)."""
    word = text.strip(_TRIMMED).casefold()
    return next((order for order in Order if order.value == word), None)


def order_of_emoji(name: str) -> Order | None:
    """The order that a reaction is."""
    plain = _SKIN.sub("", name)
    if plain in _APPROVE:
        return Order.APPROVE
    if plain in _DENY:
        return Order.DENY
    return Order.STOP if plain in _STOP else None
