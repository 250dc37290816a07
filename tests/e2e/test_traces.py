"""One trace joins loopd, brokerd, egressd and memoryd; what is in it, and what is left out."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.messages import loop
from tests.e2e.box import running
from tests.fakes.collector import Collected, FakeCollector
from tests.fakes.model import FakeModel

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

QUERY = "when does the launch happen"
TURN = "session.turn"
SAID = "a-word-that-nobody-exports"


@pytest.fixture
def model(home: Path) -> Iterator[FakeModel]:
    with FakeModel(path=home / "m" / "model.sock") as fake:
        yield fake


def _environ(collector: FakeCollector) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}


def _by_name(spans: list[Collected]) -> dict[str, list[Collected]]:
    found: dict[str, list[Collected]] = {}
    for span in sorted(spans, key=lambda span: span.began_ns):
        found.setdefault(span.name, []).append(span)
    return found


def _of_session(spans: list[Collected], session: str) -> list[Collected]:
    """The trace whose turn is of a session."""
    (trace,) = {span.trace for span in spans if (span.name, span.attributes.get("boxmaker.session")) == (TURN, session)}
    return [span for span in spans if span.trace == trace]


def _recalls(model: FakeModel) -> None:
    model.script += [
        {"calls": [{"name": "recall", "arguments": {"query": QUERY}}], "usage": [100, 7]},
        {"text": "On Thursday.", "usage": [140, 9]},
    ]


def test_a_turn_with_a_recall_is_one_trace_over_four_daemons(home: Path, model: FakeModel) -> None:
    model.script.append({"text": "Noted."})
    _recalls(model)
    with FakeCollector() as collector, running(home, model=model.url, environ=_environ(collector)) as box:
        earlier = box.chat(f"The launch happens on Thursday. {SAID}").session
        said = box.chat("And when is that?")
        assert said.text == "On Thursday."
    # What waited when egressd was told to stop has left with it.
    first, spans = (_of_session(collector.spans, session) for session in (earlier, said.session))
    assert {span.name for span in first} == {"session.turn", "model.call", "policy.decision", "memory.read"}
    assert len(first) + len(spans) == len(collector.spans)
    assert {span.service for span in spans} == {"loopd", "brokerd", "egressd", "memoryd"}
    assert {span.resource["service.namespace"] for span in spans} == {"boxmaker"}
    ids = {span.span for span in spans}
    assert [span.name for span in spans if not span.parent] == ["session.turn"]
    assert {span.parent for span in spans if span.parent} <= ids
    found = _by_name(spans)
    assert {name: len(of) for name, of in found.items()} == {
        "session.turn": 1,
        "model.call": 2,
        "policy.decision": 3,
        "memory.read": 2,
    }
    _check_turn(found["session.turn"][0], said.session)
    _check_calls(found["model.call"], found["session.turn"][0])
    _check_decisions(found["policy.decision"], found["model.call"])
    _check_reads(found["memory.read"], said.session, earlier)
    everything = json.dumps([span.attributes for span in spans])
    assert SAID not in everything
    assert "Thursday" not in everything


def _check_turn(turn: Collected, session: str) -> None:
    expected = {
        "boxmaker.session": session,
        "boxmaker.destination": "scripted",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": session,
    }
    assert expected.items() <= turn.attributes.items()
    assert not turn.failed


def _check_calls(calls: list[Collected], turn: Collected) -> None:
    for call, tokens in zip(calls, [(100, 7), (140, 9)], strict=True):
        expected = {
            "boxmaker.session": turn.attributes["boxmaker.session"],
            "boxmaker.destination": "scripted",
            "boxmaker.observed_by": "egress",
            "http.response.status_code": 200,
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "scripted-1",
            "gen_ai.usage.input_tokens": tokens[0],
            "gen_ai.usage.output_tokens": tokens[1],
        }
        assert expected.items() <= call.attributes.items()
        assert (call.parent, call.kind, call.failed) == (turn.span, 3, False)
        # Its last byte ends the turn, and then egressd settles it.
        assert turn.began_ns <= call.began_ns < min(call.ended_ns, turn.ended_ns)


def _check_decisions(decisions: list[Collected], calls: list[Collected]) -> None:
    actions = [decision.attributes["boxmaker.decision.action"] for decision in decisions]
    assert actions == ["egress.call", "recall", "egress.call"]
    assert [decision.parent for decision in decisions if decision.attributes.get("boxmaker.destination")] == [
        call.span for call in calls
    ]
    for decision in decisions:
        expected = {
            "boxmaker.decision.principal": "owner",
            "boxmaker.decision.principal_class": "secret",
            "boxmaker.decision.domain": "dom-me",
            "boxmaker.decision.allow": True,
            "boxmaker.decision.admit": True,
            "boxmaker.decision.review": False,
        }
        assert expected.items() <= decision.attributes.items()
        assert decision.attributes["boxmaker.decision.reason"]
        assert decision.attributes["boxmaker.decision.policy"]


def _check_reads(reads: list[Collected], session: str, earlier: str) -> None:
    block, recall = reads
    assert block.attributes["boxmaker.memory.tool"] == "memory_block"
    assert block.attributes["boxmaker.memory.tokens"] > 0
    expected = {
        "boxmaker.session": session,
        "boxmaker.memory.tool": "recall",
        "boxmaker.memory.query": QUERY,
        "gen_ai.memory.query.text": QUERY,
        "gen_ai.operation.name": "search_memory",
    }
    assert expected.items() <= recall.attributes.items()
    assert recall.attributes["boxmaker.memory.hits"] == 1
    assert earlier in recall.attributes["boxmaker.memory.entries"][0]


def test_above_the_ceiling_the_query_is_left_out_and_a_failure_has_its_code(home: Path, model: FakeModel) -> None:
    _recalls(model)
    (home / "config").mkdir()
    with FakeCollector() as collector:
        text = f'[traces]\nendpoint = "{collector.url}"\nceiling = "public"\n'
        (home / "config" / "egressd.toml").write_text(text)
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "", "OTEL_BSP_SCHEDULE_DELAY": "50"}
        with running(home, model=model.url, environ=environ) as box:
            assert box.chat("When is the launch?").text
            box.write("grants.toml", "")
            assert box.chat("And now?").of(loop.ChatFailed)
    spans = collector.spans
    recall = _by_name(spans)["memory.read"][1]
    assert recall.attributes["boxmaker.memory.tool"] == "recall"
    assert not [name for name in recall.attributes if "query" in name]
    assert QUERY not in json.dumps([span.attributes for span in spans])
    assert [span.attributes["error.type"] for span in spans if span.failed and span.name == TURN] == [
        "destination-unknown"
    ]
