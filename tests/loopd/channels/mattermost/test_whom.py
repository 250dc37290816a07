"""Who is answered, and what is an order."""

import pytest

from loopd.channels.mattermost.posts import Post
from loopd.channels.mattermost.whom import (
    Order,
    People,
    is_answered,
    is_heard,
    is_mention,
    order_of_emoji,
    order_of_text,
)
from loopd.config import Answer

ME, OWNER, OTHER, GUEST = "m" * 26, "o" * 26, "x" * 26, "g" * 26
HERE, THERE = "c" * 26, "d" * 26


def people(answer: Answer = "mention", answer_owner: Answer = "all") -> People:
    return People(ME, "boxmaker", OWNER, frozenset({GUEST}), frozenset({THERE}), answer, answer_owner)


def post(user: str = OWNER, text: str = "hello", channel: str = HERE) -> Post:
    return Post(id="p" * 26, at=1, channel=channel, user=user, text=text)


@pytest.mark.parametrize(
    ("one", "heard"),
    [
        (post(), True),
        (post(GUEST), True),
        (post(OTHER), False),
        (post(OTHER, channel=THERE), True),
        (post(ME), False),
        (post(""), False),
        (post(text="  "), False),
        (post()._replace(kind="system_join_channel"), False),
        (post()._replace(deleted=True), False),
        (post()._replace(key="mm-x/1/1"), False),
    ],
)
def test_who_is_heard(one: Post, heard: bool) -> None:
    assert is_heard(people(), one) is heard


@pytest.mark.parametrize(
    ("answer", "user", "text", "begun", "answered"),
    [
        ("mention", OWNER, "hello", False, True),
        ("mention", GUEST, "hello", True, False),
        ("mention", GUEST, "hello @boxmaker", False, True),
        ("thread", GUEST, "hello", True, True),
        ("thread", GUEST, "hello", False, False),
        ("all", GUEST, "hello", False, True),
    ],
)
def test_what_is_answered(answer: Answer, user: str, text: str, begun: bool, answered: bool) -> None:
    assert is_answered(people(answer), post(user, text), direct=False, begun=begun) is answered
    assert is_answered(people(answer), post(user, text), direct=True, begun=begun)


def test_the_owner_can_ask_to_be_answered_less() -> None:
    assert not is_answered(people(answer_owner="mention"), post(), direct=False, begun=True)
    assert is_answered(people(answer_owner="thread"), post(), direct=False, begun=True)


@pytest.mark.parametrize(
    ("text", "mentioned"),
    [
        ("@boxmaker", True),
        ("so @BoxMaker, what now", True),
        ("(@boxmaker)", True),
        ("@boxmaker.", True),
        ("@boxmaker2", False),
        ("@boxmaker.two", False),
        ("me@boxmaker", False),
        ("boxmaker", False),
    ],
)
def test_a_mention_is_the_whole_name(text: str, mentioned: bool) -> None:
    assert is_mention("boxmaker", text) is mentioned


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("approve", Order.APPROVE),
        (" Deny. ", Order.DENY),
        ("STOP!", Order.STOP),
        ("please stop", None),
        ("approved", None),
        ("", None),
    ],
)
def test_an_order_is_one_word(text: str, order: Order | None) -> None:
    assert order_of_text(text) is order


@pytest.mark.parametrize(
    ("emoji", "order"),
    [
        ("white_check_mark", Order.APPROVE),
        ("+1_medium_dark_skin_tone", Order.APPROVE),
        ("thumbsup", Order.APPROVE),
        ("x", Order.DENY),
        ("-1", Order.DENY),
        ("octagonal_sign", Order.STOP),
        ("smile", None),
    ],
)
def test_the_emojis(emoji: str, order: Order | None) -> None:
    assert order_of_emoji(emoji) is order
