"""The feed's laws: each post is handed over once, whatever breaks, and in order."""

import json
import random
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopd.channels.mattermost.feed import (
    OVERLAP_MS,
    Channel,
    Command,
    Deleted,
    Edited,
    Feed,
    Hand,
    Hello,
    Keep,
    ListChannels,
    Listed,
    Page,
    Reacted,
    Read,
    Settled,
    Told,
)
from loopd.channels.mattermost.ledger import Kept
from loopd.channels.mattermost.posts import Post, post_of

ME, OWNER = "m" * 26, "o" * 26
CHANNEL = Channel("c" * 26, direct=True)
TOWN = Channel("t" * 26, direct=False)


def identity(number: int) -> str:
    return f"{number:026d}"


def made(number: int, at: int, channel: Channel = CHANNEL, **fields: Any) -> dict[str, Any]:
    post = {
        "id": identity(number),
        "create_at": at,
        "channel_id": channel.id,
        "user_id": OWNER,
        "message": f"post {number}",
    }
    return post | {"root_id": "", "type": ""} | fields


def posted(seq: int, post: dict[str, Any], name: str = "posted") -> Told:
    return Told(seq, name, {"post": json.dumps(post), "channel_type": "D"}, post["channel_id"])


class Server:
    """What a server has, and a feed that it is connected to or not; `handed` is what the feed gave to be handled."""

    def __init__(self, page: int = 4, channel: Channel = CHANNEL) -> None:
        self.posts: list[dict[str, Any]] = []
        self.kept: dict[str, Kept] = {}
        self.handed: list[str] = []
        self.settled: set[str] = set()
        self.deleted: set[str] = set()
        self.channel = channel
        self.page = page
        self.reads: list[Read] = []
        self.seq = count()
        self.time = 1_000_000
        self.start()

    def start(self) -> None:
        """The box starts: what was handed and not settled is handed again."""
        self.handed = [post for post in self.handed if post in self.settled]
        self.feed = Feed(ME, 1, self.kept)
        self.live = False

    def connect(self) -> None:
        self.seq = count()
        self.live = True
        self.reads.clear()
        self.do(self.feed.handle(Hello("x", next(self.seq))))

    def cut(self) -> None:
        self.live = False
        self.feed.broken()

    def say(self, *, heard: bool, late_ms: int = 0, after_ms: int = 1000) -> None:
        self.time += after_ms
        post = made(len(self.posts), self.time - late_ms, self.channel)
        self.posts.append(post)
        if self.live:
            seq = next(self.seq)
            if heard:
                self.do(self.feed.handle(posted(seq, post)))

    def delete(self, chosen: int) -> None:
        """Delete a post that is done with: whoever asks for the page behind it gets other posts than before."""
        gone = [post for post in self.posts if post["id"] in self.settled]
        if gone:
            self.deleted.add(gone[chosen % len(gone)]["id"])

    def settle(self, chosen: int) -> None:
        waiting = [post for post in self.handed if post not in self.settled]
        if waiting:
            post = waiting[chosen % len(waiting)]
            self.settled.add(post)
            self.do(self.feed.handle(Settled(self.channel.id, post)))

    def answer(self) -> None:
        """Answer one page that was asked for."""
        if not self.live or not self.reads:
            return
        read = self.reads.pop(0)
        there = [post for post in self.posts if post["id"] not in self.deleted]
        ordered = sorted(there, key=lambda post: (post["create_at"], post["id"]))
        times = {post["id"]: post["create_at"] for post in self.posts}
        if read.after:
            ordered = [post for post in ordered if post["create_at"] > times[read.after]]
            found = ordered[read.page * self.page : (read.page + 1) * self.page]
        else:
            ordered.reverse()
            found = ordered[read.page * self.page : (read.page + 1) * self.page]
        posts = tuple(post for post in map(post_of, found) if post is not None and post.at >= read.since)
        self.do(self.feed.handle(Page(read, posts, len(found) == self.page)))

    def do(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case ListChannels():
                    self.do(self.feed.handle(Listed((self.channel,))))
                case Read():
                    self.reads.append(command)
                case Hand(post, _):
                    self.handed.append(post.id)
                case Keep(channel, kept):
                    self.kept[channel] = kept
                case _:
                    continue

    def drain(self) -> None:
        self.connect()
        while self.reads:
            self.answer()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["say", "same"]), st.booleans()),
        st.tuples(st.just("late"), st.integers(0, 5000)),
        st.tuples(st.sampled_from(["settle", "delete"]), st.integers(0, 50)),
        st.tuples(st.sampled_from(["answer", "connect", "cut", "restart", "gap", "rest"]), st.just(0)),
    ),
    max_size=80,
)


def play(server: Server, steps: list[tuple[str, Any]]) -> None:
    for name, value in steps:
        match name:
            case "say":
                server.say(heard=value)
            case "same":
                server.say(heard=value, after_ms=0)
            case "late":
                server.say(heard=True, late_ms=value)
            case "settle":
                server.settle(value)
            case "delete":
                server.delete(value)
            case "answer":
                server.answer()
            case "connect":
                server.connect()
            case "cut":
                server.cut()
            case "restart":
                server.start()
            case "gap":
                next(server.seq)
            case "rest":
                server.time += 2 * OVERLAP_MS
                server.do(server.feed.tidy())
            case _:
                raise AssertionError(name)


@settings(max_examples=300)
@given(STEPS)
def test_each_post_is_handed_over_once(steps: list[tuple[str, Any]]) -> None:
    server = Server()
    server.connect()
    play(server, steps)
    server.drain()
    assert len(set(server.handed)) == len(server.handed)
    assert set(server.handed) == {post["id"] for post in server.posts}


@settings(max_examples=100)
@given(STEPS)
def test_what_comes_from_pages_is_in_order(steps: list[tuple[str, Any]]) -> None:
    server = Server()
    play(server, [step for step in steps if step[0] == "say"])
    server.drain()
    assert server.handed == [post["id"] for post in server.posts]


def test_a_long_life_keeps_little() -> None:
    server, chosen = Server(page=200), random.Random(3)
    server.connect()
    server.answer()
    for _ in range(2000):
        server.say(heard=True)
        server.settle(chosen.randrange(3))
        if chosen.random() < 0.05:
            server.cut()
            server.say(heard=False)
            server.drain()
    while len(server.settled) < len(server.handed):
        server.settle(0)
    assert len(set(server.handed)) == len(server.handed) == len(server.posts)
    assert len(server.kept[CHANNEL.id].done) <= OVERLAP_MS / 1000 + 1


def handed(commands: list[Command]) -> list[Command]:
    return [one for one in commands if not isinstance(one, Keep | ListChannels)]


def caught_up(channel: Channel = CHANNEL, *posts: Post) -> Feed:
    feed = Feed(ME, 1, {})
    feed.handle(Hello("x"))
    (read,) = handed(feed.handle(Listed((channel,))))
    assert isinstance(read, Read)
    feed.handle(Page(read, posts, more=False))
    return feed


def test_the_same_event_twice_is_one_post() -> None:
    feed = caught_up()
    (command,) = feed.handle(posted(1, made(1, 10)))
    assert isinstance(command, Hand)
    assert feed.handle(posted(2, made(1, 10))) == []


def test_a_gap_in_the_numbers_is_a_break() -> None:
    feed = caught_up()
    commands = feed.handle(posted(5, made(1, 10)))
    assert commands[0] == ListChannels()
    assert not [one for one in commands if isinstance(one, Hand)]
    (read,) = feed.handle(Listed((CHANNEL,)))
    assert isinstance(read, Read)
    post = post_of(made(1, 10))
    assert post is not None
    assert [one.post.id for one in feed.handle(Page(read, (post,), more=False)) if isinstance(one, Hand)] == [post.id]


def test_a_page_of_an_earlier_break_says_nothing() -> None:
    feed = Feed(ME, 1, {})
    feed.handle(Hello("x"))
    (read,) = handed(feed.handle(Listed((CHANNEL,))))
    assert isinstance(read, Read)
    feed.handle(Hello("y"))
    post = post_of(made(1, 10))
    assert post is not None
    assert feed.handle(Page(read, (post,), more=False)) == []


def test_an_edit_of_what_is_not_settled_is_told_and_of_what_is_settled_not() -> None:
    feed = caught_up()
    feed.handle(posted(1, made(1, 10)))
    edit = posted(2, made(1, 10, message="better", edit_at=11), "post_edited")
    (command,) = feed.handle(edit)
    assert isinstance(command, Edited)
    assert command.post.text == "better"
    feed.handle(Settled(CHANNEL.id, identity(1)))
    assert feed.handle(edit._replace(seq=3)) == []


def test_a_post_that_is_deleted_before_it_is_settled_is_told() -> None:
    feed = caught_up()
    feed.handle(posted(1, made(1, 10)))
    (command,) = feed.handle(posted(2, made(1, 10), "post_deleted"))
    assert isinstance(command, Deleted)


def test_a_reaction_is_told() -> None:
    reaction = {"user_id": OWNER, "post_id": identity(1), "emoji_name": "+1", "create_at": 5}
    (command,) = caught_up().handle(Told(1, "reaction_added", {"reaction": json.dumps(reaction)}, ""))
    assert isinstance(command, Reacted)
    assert command.reaction.emoji == "+1"


def test_in_a_team_s_channel_what_was_said_before_the_bot_came_is_not_its_business() -> None:
    feed = Feed(ME, 1, {})
    feed.handle(Hello("x"))
    (read,) = handed(feed.handle(Listed((TOWN,))))
    assert isinstance(read, Read)
    rows = [
        made(1, 10, TOWN),
        made(2, 20, TOWN, type="system_add_to_channel", props={"addedUserId": ME}),
        made(3, 30, TOWN),
    ]
    posts = tuple(post for post in map(post_of, rows) if post is not None)
    commands = feed.handle(Page(read, posts, more=False))
    assert [one.post.id for one in commands if isinstance(one, Hand)] == [identity(2), identity(3)]


def test_a_channel_that_nobody_listed_is_read_when_something_is_said_in_it() -> None:
    feed = caught_up()
    other = Channel("d" * 26, direct=True)
    commands = feed.handle(posted(1, made(1, 10, other)))
    (read,) = handed(commands)
    assert isinstance(read, Read)
    assert [one.post.id for one in feed.handle(Page(read, (), more=False)) if isinstance(one, Hand)] == [identity(1)]


def test_what_is_of_no_interest_is_kept_once_in_a_while() -> None:
    feed = caught_up()
    feed.handle(posted(1, made(1, 10)))
    assert feed.handle(Settled(CHANNEL.id, identity(1), kept=False)) == []
    (command,) = feed.tidy()
    assert isinstance(command, Keep)
    assert command.kept.done == {identity(1): 10}
    assert feed.tidy() == []


@pytest.mark.parametrize("value", [None, 3, "no json", "[]", '{"id": "short"}', '{"id": 5}'])
def test_what_is_no_post_is_nothing(value: Any) -> None:
    feed = caught_up()
    assert feed.handle(Told(1, "posted", {"post": value}, "")) == []
    assert feed.handle(Told(2, "reaction_added", {"reaction": value}, "")) == []


def heard_live(*posts: dict[str, Any]) -> Feed:
    feed = caught_up()
    for seq, post in enumerate(posts, 1):
        feed.handle(posted(seq, post))
    return feed


def test_a_mark_never_parts_the_posts_of_one_millisecond() -> None:
    """What is read on after a post has a later time than it: the other one would never be told of again."""
    late = 10 + OVERLAP_MS
    for first, second in ((1, 2), (2, 1)):
        feed = heard_live(made(0, 9), made(1, 10), made(2, 10), made(3, late))
        feed.handle(Settled(CHANNEL.id, identity(0)))
        feed.handle(Settled(CHANNEL.id, identity(3)))
        (command,) = feed.handle(Settled(CHANNEL.id, identity(first)))
        assert isinstance(command, Keep)
        assert (command.kept.at, command.kept.post) == (9, identity(0))
        (command,) = feed.handle(Settled(CHANNEL.id, identity(second)))
        assert isinstance(command, Keep)
        assert (command.kept.at, command.kept.post) == (10, identity(2))


def reading(feed: Feed) -> Read:
    feed.handle(Hello("y"))
    (read,) = handed(feed.handle(Listed((CHANNEL,))))
    assert isinstance(read, Read)
    return read


def test_an_edit_and_a_deletion_while_pages_are_read_are_taken() -> None:
    feed = caught_up()
    read = reading(feed)
    for seq, (number, name) in enumerate(((1, "post_edited"), (2, "post_deleted")), 1):
        assert feed.handle(posted(seq, made(number, 10, message="better", edit_at=11), name)) == []
    posts = tuple(post for post in (post_of(made(number, 10)) for number in (1, 2)) if post is not None)
    first, second = [one.post for one in feed.handle(Page(read, posts, more=False)) if isinstance(one, Hand)]
    assert (first.text, second.deleted) == ("better", True)


def test_an_edit_that_only_a_page_tells_of_is_taken() -> None:
    """The post was told of, and changed after the connection broke, before anything could be handled."""
    feed = caught_up()
    reading(feed)
    feed.handle(posted(1, made(1, 10)))
    feed.broken()
    read = reading(feed)
    post = post_of(made(1, 10, message="better", edit_at=11))
    assert post is not None
    (command,) = [one for one in feed.handle(Page(read, (post,), more=False)) if isinstance(one, Hand)]
    assert command.post.text == "better"


def test_what_anybody_may_write_on_his_post_does_not_say_when_the_bot_came() -> None:
    feed = Feed(ME, 1, {})
    feed.handle(Hello("x"))
    (read,) = handed(feed.handle(Listed((TOWN,))))
    assert isinstance(read, Read)
    rows = [made(1, 10, TOWN), made(2, 20, TOWN, props={"addedUserId": ME})]
    posts = tuple(post for post in map(post_of, rows) if post is not None)
    commands = feed.handle(Page(read, posts, more=False))
    assert [one.post.id for one in commands if isinstance(one, Hand)] == [identity(1), identity(2)]


def test_a_post_that_is_told_of_is_handed_over_though_the_server_s_clock_was_set_back() -> None:
    feed = heard_live(made(1, 10), made(2, 10 + OVERLAP_MS))
    feed.handle(Settled(CHANNEL.id, identity(2)))
    (kept,) = feed.handle(Settled(CHANNEL.id, identity(1)))
    assert isinstance(kept, Keep)
    assert kept.kept.at == 10
    (hand,) = feed.handle(posted(3, made(3, 5)))
    assert isinstance(hand, Hand)
    (kept,) = feed.handle(Settled(CHANNEL.id, identity(3)))
    assert isinstance(kept, Keep)
    assert (kept.kept.at, kept.kept.done) == (10, {identity(2): 10 + OVERLAP_MS})
    assert [feed.handle(posted(seq, made(number, 5))) for seq, number in ((4, 3), (5, 1))] == [[], []]


@pytest.mark.parametrize("same", [False, True])
def test_a_deletion_between_two_pages_takes_no_other_post_away(same: bool) -> None:
    """A page is a number of posts after a place: with one that is gone, the next page would begin one too late."""
    server = Server()
    server.drain()
    server.say(heard=True)
    server.time += 2 * OVERLAP_MS
    server.say(heard=True)
    server.settle(0)
    server.settle(0)
    server.cut()
    for number in range(8):
        server.say(heard=False, after_ms=0 if same and number % 4 else 1000)
    server.connect()
    server.answer()
    server.deleted.add(server.posts[2]["id"])
    while server.reads:
        server.answer()
    assert {post["id"] for post in server.posts} <= {*server.handed}
