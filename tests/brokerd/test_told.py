"""The spans of decisions: the three verdicts, and sessions that nobody knows."""

from collections.abc import Iterator

import pytest

from brokerd import told
from brokerd.decide import Decision
from brokerd.facts import strictest
from brokerd.sessions import Session
from proto.labels import PRIVATE, DataClass
from proto.messages.spans import Span
from proto.role import trace
from tests.fakes.spans import kept


@pytest.fixture
def told_of() -> Iterator[list[Span]]:
    with kept("brokerd") as sink:
        yield sink.spans


SESSION = Session(
    session="chat-1",
    via="loop-broker",
    session_kind="chat",
    principal="owner",
    principal_class=DataClass.SECRET,
    domain="dom-me",
    destination="local",
    auth="none",
    tree=None,
    task=None,
    class_=PRIVATE.class_,
    untrusted=False,
    open=True,
    opened="2026-09-24T21:02:03Z",
)


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (Decision(verdict="allow", reasons=("built-in",), label=PRIVATE, policy="p"), (True, True, False)),
        (Decision(verdict="ask", reasons=("ask", "host"), label=PRIVATE, policy="p"), (True, False, True)),
        (Decision(verdict="deny", reasons=("taint",), label=PRIVATE, policy="p"), (False, False, False)),
    ],
)
def test_allow_admit_and_review(told_of: list[Span], decision: Decision, said: tuple[bool, bool, bool]) -> None:
    told.decided(trace.now_ns(), "recall", SESSION, decision, told.of_tool("chat-1", "c1", "recall"))
    found = told_of[0].attributes
    assert tuple(found[f"boxmaker.decision.{name}"] for name in ("allow", "admit", "review")) == said
    assert found["boxmaker.decision.reason"] == ", ".join(decision.reasons)
    assert (told_of[0].name, told_of[0].service, told_of[0].texts) == ("policy.decision", "brokerd", {})
    assert (found["gen_ai.tool.name"], found["gen_ai.tool.call.id"]) == ("recall", "c1")


def test_a_session_that_nobody_knows_has_no_principal(told_of: list[Span]) -> None:
    decision = Decision(verdict="deny", reasons=("session-not-open",), label=strictest(), policy="p")
    told.decided(trace.now_ns(), "egress.tunnel", None, decision, told.of_egress("run-x", "m1", "openai"))
    found = told_of[0].attributes
    assert not {"boxmaker.decision.principal", "boxmaker.decision.domain"} & set(found)
    assert (found["boxmaker.class"], found["boxmaker.untrusted"]) == ("secret", True)
    assert (found["boxmaker.decision.action"], found["boxmaker.destination"]) == ("egress.tunnel", "openai")
