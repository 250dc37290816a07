"""The guard in Python and the built-in policy in Rego say the same, so that no module of the root's can be laxer."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd import app, facts, guard
from brokerd.grants.grant import Grant, GrantFile
from brokerd.grants.shelf import GrantSet
from brokerd.policy import modules
from brokerd.policy.engine import Engine
from brokerd.policy.inforce import text_of
from brokerd.policy.verdict import INVALID, Verdict, read
from brokerd.sessions import Session, _from_request
from proto.labels import DataClass, Label
from proto.messages.broker import EgressAsk, Spending
from proto.role.clock import now
from proto.rules import Channel, Destination, Mattermost, Rules, Spend
from tests.brokerd.running import opening

ENGINE = Engine(modules.in_force(modules.built_in()))
ALL = Verdict("allow", ("granted",))

labels = st.builds(Label, st.sampled_from(DataClass), st.booleans())
grants = st.builds(
    GrantFile,
    tool=st.just("http_fetch"),
    mode=st.sampled_from(["auto", "ask", "deny"]),
    max_taint=st.sampled_from(DataClass),
    hosts=st.lists(st.sampled_from(["a.example", "*.example", "*", "localhost"]), min_size=1, max_size=2),
    loopback=st.booleans(),
)
calls = st.sampled_from(
    [
        ("recall", {"query": "x"}),
        ("recall", {"query": ""}),
        ("run_command", {"command": "ls"}),
        ("nothing", {}),
        *(
            ("http_fetch", {"url": f"{scheme}://{host}/"})
            for scheme in ("http", "https")
            for host in ("a.example", "b.example", "localhost", "c.test")
        ),
    ]
)


def _session(label: Label, is_open: bool) -> Session:
    session = _from_request(opening(label=label), "loop-broker", "", label)
    return msgspec.structs.replace(session, open=is_open)


@settings(max_examples=300)
@given(
    calls,
    st.lists(grants, max_size=3),
    labels,
    st.sampled_from([True, True, False, None]),
    st.booleans(),
    st.booleans(),
)
def test_a_policy_that_allows_everything_comes_to_what_the_built_in_one_says(
    call: tuple[str, dict[str, str]],
    says: list[GrantFile],
    label: Label,
    is_open: bool | None,
    approved: bool,
    broken: bool,
) -> None:
    session = None if is_open is None else _session(label, is_open)
    shelf = GrantSet(
        tuple(Grant(f"g{number}", "", one) for number, one in enumerate(says)), ("a problem",) if broken else ()
    )
    question = facts.Question(session=session, label=label, tool=call[0], arguments=call[1], approved=approved)
    found = facts.of_tool(question, shelf, now())
    built_in = read(ENGINE.ask(facts.TOOL, text_of(found.term)))
    kept = guard.keep_tool(ALL, found, shelf, question)
    assert kept.verdict == built_in.verdict
    if kept.verdict != "allow":
        assert set(kept.reasons) <= set(built_in.reasons)
    assert guard.keep_tool(INVALID, found, shelf, question) == INVALID
    assert guard.keep_tool(built_in, found, shelf, question) == built_in


sums = st.none() | st.integers(0, 200) | st.integers((1 << 62) - 2, 1 << 62)
caps = st.none() | st.just(0) | st.integers(0, 200) | st.just(1 << 53)
usd = st.none() | st.floats(0, 2e-7) | st.just(1e9)
asks = st.builds(
    EgressAsk,
    session=st.sampled_from(["chat-1", "chat-1", None]),
    call=st.just("c"),
    destination=st.just("local"),
    method=st.just("POST"),
    path=st.sampled_from(["/", "a.example:443", "a.example:8443", "b.example:443", "a.example", ":", "a.example:0443"]),
    what=st.sampled_from(["call", "call", "read", "tunnel", "post", "post"]),
    model=st.sampled_from(["", "m"]),
    hosted_tools=st.lists(st.sampled_from(["web_search", "mcp"]), max_size=2),
    spending=st.none()
    | st.builds(
        Spending,
        session_tokens=st.integers(0, 200),
        day_tokens=st.integers(0, 200) | st.just(1 << 62),
        session_nusd=sums,
        day_nusd=sums,
        metered=st.booleans(),
    ),
    channel=st.sampled_from([None, "a" * 26, "b" * 26]),
    direct=st.booleans(),
)
servers = st.builds(
    Destination, base_url=st.just("unix:x"), api=st.just("mattermost"), ceiling=st.sampled_from(DataClass)
)
mattermosts = st.builds(
    Mattermost,
    owner=st.sampled_from([None, "o" * 26]),
    channels=st.dictionaries(
        st.sampled_from(["a" * 26, "b" * 26]), st.builds(Channel, ceiling=st.sampled_from(DataClass)), max_size=2
    ),
)
places = st.builds(
    Destination,
    base_url=st.just("unix:x"),
    ceiling=st.sampled_from(DataClass),
    tunnels=st.sampled_from([[], ["a.example"], ["a.example:8443", "b.example"]]),
    hosted_tools=st.sampled_from([[], ["web_search"], ["web_search", "mcp"]]),
)
spends = st.builds(Spend, session_tokens=caps, day_tokens=caps, session_usd=usd, day_usd=usd)


@settings(max_examples=200)
@given(
    labels,
    st.sampled_from([True, True, True, False, None]),
    st.none() | places | places | servers | servers,
    st.none() | spends,
    asks,
    st.sampled_from([True, True, True, False]),
    mattermosts,
)
def test_nothing_leaves_that_the_built_in_policy_would_keep(
    label: Label,
    is_open: bool | None,
    place: Destination | None,
    spend: Spend | None,
    ask: EgressAsk,
    readable: bool,
    mattermost: Mattermost,
) -> None:
    session = None if is_open is None or ask.session is None else _session(label, is_open)
    named = {"local": place} if place else {}
    limits = {"local": spend} if spend and named else {}
    rules = Rules(destinations=named, spend=limits, mattermost=mattermost) if readable else None
    term = facts.of_egress(ask, session, label, rules, now())
    built_in = read(ENGINE.ask(facts.EGRESS, text_of(term)))
    kept = guard.keep_egress(Verdict("allow", ("within-ceiling",)), term)
    assert kept.verdict == built_in.verdict
    assert set(kept.reasons) <= set(built_in.reasons)


@pytest.mark.parametrize(
    ("spend", "reasons"),
    [
        (Spend(session_tokens=0), ("spend",)),
        (Spend(day_tokens=0), ("spend",)),
        (Spend(session_tokens=1, day_usd=0.0), ("within-ceiling",)),
    ],
)
def test_a_tunnel_where_nothing_may_be_spent_is_kept(spend: Spend, reasons: tuple[str, ...]) -> None:
    label = Label(class_=DataClass.PUBLIC, untrusted=False)
    session = _session(label, True)
    rules = Rules(destinations={"local": Destination(tunnels=["a.example"])}, spend={"local": spend})
    ask = EgressAsk(
        session="chat-1", call="c", destination="local", method="CONNECT", path="a.example:443", what="tunnel"
    )
    term = facts.of_egress(ask, session, label, rules, now())
    assert read(ENGINE.ask(facts.EGRESS, text_of(term))).reasons == reasons
    assert guard.keep_egress(Verdict("allow", ("within-ceiling",)), term).reasons == reasons


def test_a_request_that_names_too_many_tools_is_refused() -> None:
    label = Label(class_=DataClass.PUBLIC, untrusted=True)
    tools = [f"tool-{number}" for number in range(101)]
    rules = Rules(destinations={"local": Destination(base_url="unix:x", hosted_tools=tools)})
    ask = EgressAsk(session="chat-1", call="c", destination="local", method="POST", path="/", hosted_tools=tools)
    term = facts.of_egress(ask, _session(label, True), label, rules, now())
    assert read(ENGINE.ask(facts.EGRESS, text_of(term))) == Verdict("deny", ("hosted-tool",))


def test_the_trials_are_answered_by_the_built_in_policy() -> None:
    for entrypoint, term in app.trial_terms().items():
        assert read(ENGINE.ask(entrypoint, text_of(term))) != INVALID
