"""Model calls as a collector sees them, over the real daemon: those of a harness, those that are refused, reports."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.messages.egress import HarnessUsage
from proto.messages.wire import Ok
from tests.e2e.box import Box, running
from tests.egressd.conftest import KEY
from tests.egressd.http import BODY
from tests.egressd.own import SESSION, exchange, opened, request
from tests.fakes.collector import FakeCollector
from tests.fakes.egress_broker import FakeBroker
from tests.fakes.upstream import USAGE, Upstream, answer, upstream

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
RULES = '[destinations.up]\nbase_url = "{url}"\nauth = ["key"]\ncredential = "UP_KEY"\n'
CALL = request("/v1/chat/completions", BODY, headers=f"traceparent: 00-{TRACE}-{PARENT}-00\r\n")


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    with FakeCollector() as found:
        yield found


@pytest.fixture
def up(home: Path) -> Iterator[Upstream]:
    with upstream(answer(USAGE)) as found:
        (home / "grants.toml").write_text(RULES.format(url=found.url))
        yield found


@pytest.fixture
def box(home: Path, broker: FakeBroker, collector: FakeCollector) -> Iterator[Box]:
    environ = {"UP_KEY": KEY, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "20"}
    with running(home, "egressd", environ=environ) as found:
        yield found


def test_a_harness_is_followed_into_its_trace_and_none_of_it_leaves(
    box: Box, up: Upstream, broker: FakeBroker, collector: FakeCollector
) -> None:
    assert exchange(opened(box, auth="key"), CALL).status == 200
    (call,) = collector.wait_for(1)
    assert (call.name, call.service, call.trace, call.parent) == ("model.call", "egressd", TRACE, PARENT)
    assert broker.asked[0].trace == f"00-{TRACE}-{call.span}-01"
    assert b"traceparent" not in up.requests[0].lower()
    expected = {
        "boxmaker.session": SESSION,
        "boxmaker.destination": "up",
        "boxmaker.observed_by": "egress",
        "boxmaker.auth": "key",
        "boxmaker.ended": "complete",
        "boxmaker.partial": False,
        "http.response.status_code": 200,
        "gen_ai.provider.name": "up",
        "gen_ai.request.model": "scripted-1",
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 5,
    }
    assert expected.items() <= call.attributes.items()
    assert KEY not in json.dumps([call.attributes, call.resource])


def test_a_call_that_is_refused_is_told_with_its_code_and_status(
    box: Box, up: Upstream, broker: FakeBroker, collector: FakeCollector
) -> None:
    broker.deny("ceiling")
    assert exchange(opened(box, auth="key"), CALL).status == 403
    (call,) = collector.wait_for(1)
    assert (call.failed, call.attributes["error.type"]) == (True, "ceiling")
    assert (call.attributes["http.response.status_code"], call.attributes["boxmaker.ended"]) == (403, "refused")
    assert not [name for name in call.attributes if "tokens" in name]


def test_a_list_of_models_is_no_model_call(box: Box, up: Upstream, collector: FakeCollector) -> None:
    path = opened(box, auth="key")
    exchange(path, request("/v1/models", method="GET"))
    exchange(path, CALL)
    assert [call.attributes["gen_ai.request.model"] for call in collector.wait_for(1)] == ["scripted-1"]


def test_a_report_of_a_harness_is_a_span_of_its_own(box: Box, up: Upstream, collector: FakeCollector) -> None:
    report = HarnessUsage(
        session=SESSION,
        call="h1",
        destination="up",
        model="m",
        input_tokens=9,
        output_tokens=2,
        cache_read_tokens=1,
        cache_write_5m_tokens=None,
        cache_write_1h_tokens=3,
        reasoning_tokens=None,
    )
    assert box.ask("launcher-egress", report, Ok) == Ok()
    (call,) = collector.wait_for(1)
    assert (call.name, call.attributes["boxmaker.observed_by"]) == ("model.call", "harness")
    assert call.attributes["gen_ai.usage.cache_write.input_tokens"] == 3
    assert call.parent == ""
