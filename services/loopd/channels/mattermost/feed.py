"""The stream "handle this post once, in order" as a state machine: what the server tells in, commands out, no I/O.

A channel is LIVE while its events are trusted, and CATCHING_UP from a break until every page after its mark was read.
What comes meanwhile waits, so that posts are handed over in the order of their times. A gap in the events' numbers, a
new connection, another connection id: each is a break, since something may have been said that was not heard.

Laws (tested over random breaks): each post is handed over exactly once in the life of a ledger, however often it is
told of; in a thread, one that is older never after one that is newer and came from the same pages.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

import msgspec

from loopd.channels.mattermost.ledger import Kept
from loopd.channels.mattermost.posts import Post, Reaction, is_id, post_of, reaction_of

OVERLAP_MS: Final = 60_000
"""The mark stays so far behind the newest post: one whose time is a little older may become visible after it."""
_DIRECT: Final = "D"
_PASSED: Final = 1000


class Channel(NamedTuple):
    """A channel that the bot is in."""

    id: str
    direct: bool


class Hello(NamedTuple):
    """The server greets a connection."""

    connection: str
    seq: int = 0


class Told(NamedTuple):
    """An event of the WebSocket, decoded."""

    seq: int
    name: str
    data: Mapping[str, Any]
    channel: str


class Listed(NamedTuple):
    """The channels that the bot is in."""

    channels: tuple[Channel, ...]


class Page(NamedTuple):
    """The answer to a `Read`."""

    read: "Read"
    posts: tuple[Post, ...]
    more: bool


class Settled(NamedTuple):
    """All that comes of a post is done; `kept` says that it must be remembered as such."""

    channel: str
    post: str
    kept: bool = True


class ListChannels(NamedTuple):
    """Ask for the channels; answered by `Listed`."""


class Read(NamedTuple):
    """Read a page of a channel: the posts after one (`after`), or, from the newest back, those from a time on."""

    channel: str
    generation: int
    page: int
    after: str
    since: int


class Hand(NamedTuple):
    """Handle this post. `is_old`: it was there before this start, and what is kept may not know all that came of it."""

    post: Post
    direct: bool
    is_old: bool = False


class Edited(NamedTuple):
    """A post that was told of has another text now."""

    post: Post


class Deleted(NamedTuple):
    """A post that was told of is gone."""

    post: Post


class Reacted(NamedTuple):
    """A reaction was put on some post."""

    reaction: Reaction


class Keep(NamedTuple):
    """Put this on disk: how far a channel is done."""

    channel: str
    kept: Kept


Event = Hello | Told | Listed | Page | Settled
Command = ListChannels | Read | Hand | Edited | Deleted | Reacted | Keep


class _Followed:
    """One channel. `known` are the posts beyond the mark, each with whether it is settled; `order` is their heap."""

    def __init__(self, channel: Channel, kept: Kept | None, since: int) -> None:
        self.channel = channel
        self.kept = kept or Kept(since=since)
        self.known: dict[str, tuple[int, bool]] = {post: (at, True) for post, at in self.kept.done.items()}
        self.order = sorted((at, post) for post, at in self.kept.done.items())
        self.newest = max(self.kept.done.values(), default=0)
        self.must_keep: dict[str, int] = dict(self.kept.done)
        self.passed: deque[str] = deque(maxlen=_PASSED)
        """The posts that the mark was moved over last."""
        self.caught_up = False
        self.generation = 0
        self.waiting: dict[str, Post] = {}
        self.is_dirty = False
        self.is_whole = False
        """Whether every post beyond the mark is known in this life of the process."""

    @property
    def mark(self) -> tuple[int, str]:
        return self.kept.at, self.kept.post

    def learn(self, post: Post) -> None:
        """A post is known now, and not settled."""
        self.known[post.id] = post.at, False
        self.newest = max(self.newest, post.at)
        heappush(self.order, post.order)

    def cursor(self) -> tuple[int, str]:
        """Where to read on: the mark, or, once the channel was read whole, what was told since and is old enough."""
        if not self.is_whole or not self.known:
            return self.mark
        told = [order for order in self.order if order[0] <= self.newest - OVERLAP_MS]
        return max([self.mark, *told])


class Feed:
    """All channels. `began` is the time, in milliseconds of the server, from which on posts are the box's business."""

    def __init__(self, me: str, began: int, kept: Mapping[str, Kept]) -> None:
        self.me = me
        self._began = began
        self._kept = dict(kept)
        self._followed: dict[str, _Followed] = {}
        self.generation = 0
        """Changes with each break: what was asked for before it is wanted no more."""
        self._next_seq: int | None = None

    def handle(self, event: Event) -> list[Command]:
        """What is to be done after an event."""
        match event:
            case Hello(_, seq):
                # Always a connection of its own, so that something may have been said before it.
                self._next_seq = seq + 1
                return self._catch_up()
            case Told():
                return self._told(event)
            case Listed(channels):
                return self._listed(channels)
            case Page():
                return self._page(event)
            case Settled(channel, post, kept):
                return self._settled(channel, post, kept=kept)

    def broken(self) -> None:
        """The connection is gone: what is said from now on is not heard."""
        self.generation += 1
        self._next_seq = None
        for followed in self._followed.values():
            followed.caught_up = False

    def tidy(self) -> list[Command]:
        """Keep what only posts of no interest have moved: for each of them alone it would be too much.

        Without it a start with other settings would take up what was said long ago to nobody.
        """
        dirty = [followed for followed in self._followed.values() if followed.is_dirty]
        for followed in dirty:
            followed.is_dirty = False
        return [Keep(followed.channel.id, followed.kept) for followed in dirty]

    # Breaks.

    def _catch_up(self) -> list[Command]:
        self.generation += 1
        for followed in self._followed.values():
            followed.caught_up = False
        return [ListChannels()]

    def _listed(self, channels: Iterable[Channel]) -> list[Command]:
        done: list[Command] = []
        for channel in channels:
            done += self._follow(channel)
            followed = self._followed[channel.id]
            if not followed.caught_up and followed.generation != self.generation:
                done.append(self._read(followed))
        return done

    def _follow(self, channel: Channel) -> list[Command]:
        if channel.id in self._followed:
            return []
        # A team's channel that was found later was not the bot's until the box last heard anything.
        heard = max((kept.at for kept in self._kept.values()), default=0) - OVERLAP_MS
        since = self._began if channel.direct else max(self._began, heard)
        kept = self._kept.get(channel.id)
        followed = self._followed[channel.id] = _Followed(channel, kept, since)
        return [Keep(channel.id, followed.kept)] if kept is None else []

    def _read(self, followed: _Followed) -> Read:
        followed.generation = self.generation
        at, post = followed.cursor()
        return Read(followed.channel.id, self.generation, 0, post, at or followed.kept.since)

    def _page(self, page: Page) -> list[Command]:
        read = page.read
        followed = self._followed.get(read.channel)
        if followed is None or read.generation != self.generation:
            return []
        for post in page.posts:
            told = followed.waiting.get(post.id)
            if told is None or (post.edited > told.edited and not told.deleted):
                followed.waiting[post.id] = post
        if page.more:
            return [_next(read, page.posts)]
        first, followed.caught_up, followed.is_whole = not followed.is_whole, True, True
        waiting = sorted(followed.waiting.values(), key=lambda post: post.place)
        followed.waiting.clear()
        done = self._begin(followed, waiting)
        begin = followed.kept.since
        for post in waiting:
            done += self._take(followed, post, ours=post.at >= begin, is_old=first)
        return done

    def _begin(self, followed: _Followed, posts: list[Post]) -> list[Command]:
        """In a team's channel that is new, what was said before the bot came in is not its business."""
        came = [post.at for post in posts if post.joined == self.me]
        if followed.channel.direct or followed.known or followed.kept.post or not came:
            return []
        followed.kept = msgspec.structs.replace(followed.kept, since=max(followed.kept.since, came[-1]))
        self._kept[followed.channel.id] = followed.kept
        return [Keep(followed.channel.id, followed.kept)]

    # Events.

    def _told(self, event: Told) -> list[Command]:
        done: list[Command] = []
        if self._next_seq is not None and event.seq != self._next_seq:
            done += self._catch_up()
        self._next_seq = event.seq + 1
        match event.name:
            case "posted":
                post = post_of(event.data.get("post"))
                return done if post is None else [*done, *self._posted(post, event)]
            case "post_edited" | "post_deleted":
                post = post_of(event.data.get("post"))
                return done if post is None else [*done, *self._changed(post, gone=event.name == "post_deleted")]
            case "reaction_added":
                reaction = reaction_of(event.data.get("reaction"))
                return done if reaction is None else [*done, Reacted(reaction)]
            case "user_added" | "direct_added" | "group_added" | "channel_created":
                # A channel that is new: it is in the list.
                return done or [ListChannels()]
            case _:
                return done

    def _posted(self, post: Post, event: Told) -> list[Command]:
        followed = self._followed.get(post.channel)
        if followed is None:
            direct = event.data.get("channel_type") == _DIRECT
            done = self._follow(Channel(post.channel, direct))
            followed = self._followed[post.channel]
            followed.waiting[post.id] = post
            return [*done, self._read(followed)]
        if not followed.caught_up:
            followed.waiting[post.id] = post
            return []
        if post.order <= followed.mark and post.id not in followed.known and post.id not in followed.passed:
            # It is told of now, and its time says that it is older: the server's clock was set back.
            followed.learn(post)
            return [Hand(post, followed.channel.direct)]
        return self._take(followed, post, ours=True)

    def _changed(self, post: Post, *, gone: bool) -> list[Command]:
        followed = self._followed.get(post.channel)
        if followed is None:
            return []
        if post.id in followed.known:
            settled = followed.known[post.id][1]
            return [] if settled else [Deleted(post) if gone else Edited(post)]
        if not followed.caught_up:
            # The page that has it as it was may be on its way already.
            followed.waiting[post.id] = post._replace(deleted=gone or post.deleted)
        return []

    def _take(self, followed: _Followed, post: Post, *, ours: bool, is_old: bool = False) -> list[Command]:
        """Hand a post over, unless it was before."""
        if post.order <= followed.mark or not is_id(post.id):
            return []
        if post.id in followed.known:
            settled = followed.known[post.id][1]
            # It was edited while nobody listened.
            return [] if settled or not post.edited else [Edited(post)]
        if not ours:
            return self._ignored(followed, post)
        followed.learn(post)
        return [Hand(post, followed.channel.direct, is_old)]

    def _ignored(self, followed: _Followed, post: Post) -> list[Command]:
        followed.learn(post)
        return self._settled(followed.channel.id, post.id, kept=False)

    # Marks.

    def _settled(self, channel: str, post: str, *, kept: bool) -> list[Command]:
        followed = self._followed[channel]
        at, was = followed.known.get(post, (0, True))
        if was:
            return []
        followed.known[post] = at, True
        followed.must_keep[post] = at
        self._advance(followed)
        followed.is_dirty = not kept
        return [Keep(channel, followed.kept)] if kept else []

    def _advance(self, followed: _Followed) -> None:
        """Move the mark over what is settled and old enough, one millisecond after the other.

        The server reads on from a later time than that of the post that it is given, so that a mark in the middle of a
        millisecond would leave out what is not settled of it.
        """
        mark = followed.mark
        while followed.order and (at := followed.order[0][0]) <= followed.newest - OVERLAP_MS:
            same = [heappop(followed.order)]
            while followed.order and followed.order[0][0] == at:
                same.append(heappop(followed.order))
            if not all(followed.known[post][1] for _, post in same):
                for order in same:
                    heappush(followed.order, order)
                break
            mark = max(mark, *same)
            for _, post in same:
                del followed.known[post]
                followed.passed.append(post)
                followed.must_keep.pop(post, None)
        since = followed.kept.since
        followed.kept = Kept(at=mark[0], post=mark[1], since=since, done=dict(followed.must_keep))
        self._kept[followed.channel.id] = followed.kept


def _next(read: Read, posts: tuple[Post, ...]) -> Read:
    """The page behind one of these posts, the oldest first.

    It begins after a post, not after so many: one that is deleted meanwhile would let the next page begin too late. The
    last millisecond is read again, since it may go on there.
    """
    before_last = [post for post in posts if post.at < posts[-1].at]
    if not read.after or not before_last:
        return read._replace(page=read.page + 1)
    return read._replace(after=before_last[-1].id, page=0)
