"""What may be posted on Mattermost: under the channel's ceiling, secret with the owner alone, and never without a session."""

import msgspec
import pytest

from brokerd import facts, guard
from brokerd.policy import modules
from brokerd.policy.engine import Engine
from brokerd.policy.inforce import text_of
from brokerd.policy.verdict import Verdict, read
from brokerd.sessions import _from_request
from proto.labels import DataClass, Label
from proto.messages.broker import EgressAsk
from proto.role.clock import now
from proto.rules import Channel, Destination, Mattermost, Rules
from tests.brokerd.running import opening

ENGINE = Engine(modules.in_force(modules.built_in()))
HERE, ELSEWHERE, OWNER = "a" * 26, "b" * 26, "o" * 26
PUBLIC, PRIVATE, SECRET = DataClass
ALLOWED = ("within-ceiling",)


def ask(**parts: object) -> EgressAsk:
    usual = EgressAsk(
        session=f"mm-{HERE}",
        call="post-1",
        destination="mattermost",
        method="POST",
        path="/api/v4/posts",
        what="post",
        channel=HERE,
    )
    return msgspec.structs.replace(usual, **parts)


def rules(ceiling: DataClass = PRIVATE, *, owner: str | None = OWNER, place: DataClass = SECRET) -> Rules:
    return Rules(
        destinations={
            "mattermost": Destination(base_url="https://chat.example", api="mattermost", ceiling=place),
            "local": Destination(base_url="unix:x"),
        },
        mattermost=Mattermost(owner=owner, channels={HERE: Channel(ceiling=ceiling)}),
    )


def decided(asked: EgressAsk, label: DataClass, known: Rules) -> tuple[str, ...]:
    """The reasons of the built-in policy, which the guard gives as well."""
    under = Label(class_=label, untrusted=False)
    session = None if asked.session is None else _from_request(opening(label=under), "loop-broker", "", under)
    term = facts.of_egress(asked, session, under, known, now())
    found = read(ENGINE.ask(facts.EGRESS, text_of(term)))
    kept = guard.keep_egress(Verdict("allow", ALLOWED), term)
    assert kept.verdict == found.verdict
    assert set(kept.reasons) <= set(found.reasons)
    return found.reasons


@pytest.mark.parametrize(
    ("label", "ceiling", "direct", "reasons"),
    [
        (PRIVATE, PRIVATE, False, ALLOWED),
        (PUBLIC, PUBLIC, False, ALLOWED),
        (PRIVATE, PUBLIC, True, ("channel-ceiling",)),
        (SECRET, SECRET, False, ("channel-ceiling",)),
        (SECRET, PRIVATE, True, ("channel-ceiling",)),
        (SECRET, SECRET, True, ALLOWED),
    ],
)
def test_a_post_is_held_against_its_channel(
    label: DataClass, ceiling: DataClass, direct: bool, reasons: tuple[str, ...]
) -> None:
    assert decided(ask(direct=direct), label, rules(ceiling)) == reasons


def test_a_channel_that_is_not_named_takes_private() -> None:
    assert decided(ask(channel=ELSEWHERE), PRIVATE, rules(PUBLIC)) == ALLOWED
    assert decided(ask(channel=ELSEWHERE, direct=True), SECRET, rules(SECRET)) == ("channel-ceiling",)


def test_no_channel_is_direct_with_an_owner_who_is_not_named() -> None:
    assert decided(ask(direct=True), SECRET, rules(SECRET, owner=None)) == ("channel-ceiling",)


def test_the_ceiling_of_the_destination_holds_as_well() -> None:
    assert decided(ask(direct=True), SECRET, rules(SECRET, place=PRIVATE)) == ("ceiling",)


@pytest.mark.parametrize(
    ("asked", "reasons"),
    [
        (ask(channel=None), ("channel-ceiling",)),
        (ask(destination="local"), ("destination",)),
        (ask(session=None), ("session-not-open",)),
        (ask(session=None, what="call"), ("session-not-open",)),
        (ask(session=None, what="read", destination="local"), ("session-not-open",)),
        (ask(session=None, what="read"), ALLOWED),
        (ask(what="read", channel=None), ALLOWED),
    ],
)
def test_what_is_no_post_of_a_session_in_a_channel(asked: EgressAsk, reasons: tuple[str, ...]) -> None:
    assert decided(asked, PUBLIC, rules()) == reasons
