"""The link's life, as a playbook: events and times in, commands out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopd.channels.mattermost.link import Broken, Connect, Drop, Heard, Link, Opened, Ping, State, Tick, rest

HELLO = Heard(hello=True)


def live(most_s: float = 60.0) -> Link:
    link = Link(most_s, 20.0, lambda: 1.0)
    assert link.handle(Tick(), 0.0) == [Connect()]
    assert link.handle(Opened(), 1.0) == []
    assert link.handle(HELLO, 2.0) == []
    assert link.state is State.LIVE
    return link


def test_a_link_that_hears_nothing_asks_and_is_given_up() -> None:
    link = live()
    assert link.handle(Tick(), 21.9) == []
    assert link.handle(Tick(), 22.0) == [Ping()]
    assert link.handle(Tick(), 42.0) == [Drop("no pong")]
    assert link.state is State.RESTING


def test_any_word_is_a_sign_of_life() -> None:
    link = live()
    assert link.handle(Tick(), 22.0) == [Ping()]
    assert link.handle(Heard(), 23.0) == []
    assert link.handle(Tick(), 42.0) == []
    assert link.handle(Tick(), 43.0) == [Ping()]


@pytest.mark.parametrize("opened", [True, False])
def test_a_server_that_does_not_greet_is_given_up(opened: bool) -> None:
    link = Link(60.0, 20.0, lambda: 1.0)
    link.handle(Tick(), 0.0)
    if opened:
        link.handle(Opened(), 0.0)
    (command,) = link.handle(Tick(), 20.0)
    assert isinstance(command, Drop)
    assert link.state is State.RESTING


def test_rests_grow_up_to_the_most_and_a_steady_link_begins_anew() -> None:
    link, now_s, rests = Link(10.0, 20.0, lambda: 1.0), 0.0, []
    for _ in range(8):
        now_s = max(now_s, link.deadline)
        assert link.handle(Tick(), now_s) == [Connect()]
        link.handle(Broken("reset"), now_s)
        rests.append(link.deadline - now_s)
    assert rests == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]
    now_s = link.deadline
    link.handle(Tick(), now_s)
    link.handle(Opened(), now_s)
    link.handle(HELLO, now_s)
    link.handle(Broken("reset"), now_s + 6.0)
    assert link.deadline == now_s + 6.5


def test_what_the_server_asks_for_is_waited_for_within_the_most() -> None:
    link = Link(10.0, 20.0, lambda: 1.0)
    link.handle(Tick(), 0.0)
    link.handle(Broken("HTTP 429", 3.0), 0.0)
    assert link.deadline == 3.0
    link.handle(Tick(), 3.0)
    link.handle(Broken("HTTP 429", 500.0), 3.0)
    assert link.deadline == 13.0


def test_the_last_words_of_a_link_that_was_given_up_are_nothing() -> None:
    link = live()
    link.handle(Tick(), 22.0)
    link.handle(Tick(), 42.0)
    deadline = link.deadline
    assert link.handle(Broken("closed"), 42.1) == []
    assert link.handle(HELLO, 42.1) == []
    assert link.handle(Opened(), 42.1) == []
    assert (link.state, link.deadline) == (State.RESTING, deadline)


@given(st.integers(0, 200), st.floats(0.1, 60), st.floats(0, 1, exclude_max=True))
def test_a_rest_is_never_longer_than_the_most_and_never_nothing(failures: int, most_s: float, chance: float) -> None:
    assert 0 < rest(failures, most_s, chance) <= most_s


EVENTS = st.sampled_from([Tick(), Opened(), Heard(), HELLO, Broken("x"), Broken("x", 1.0)])


@given(st.lists(st.tuples(EVENTS, st.floats(0, 30)), max_size=60))
def test_there_is_at_most_one_connection_and_a_deadline_always(events: list[tuple[Tick, float]]) -> None:
    link, now_s, there = Link(60.0, 20.0, lambda: 0.5), 0.0, False
    for event, later_s in events:
        now_s += later_s
        for command in link.handle(event, now_s):
            if isinstance(command, Connect):
                assert not there
                there = True
            if isinstance(command, Drop):
                there = False
        if isinstance(event, Broken):
            there = False
        assert link.deadline < now_s + 61 or link.state is not State.RESTING
