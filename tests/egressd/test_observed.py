"""The spans of model calls: what they say, and what a harness's own account says."""

from collections.abc import Iterator
from typing import Any

import pytest

from egressd import observed
from egressd.meter.usage import Usage
from egressd.ports import Beginning, Ending
from proto.messages.egress import HarnessUsage
from proto.messages.spans import Span
from proto.role import trace
from tests.fakes.spans import kept

BEGINNING = Beginning(
    call="model-1",
    session="run-1",
    destination="gemini",
    api="gemini",
    auth="key",
    model="m",
    input_bytes=10,
    output_tokens=100,
    answers=1,
    max_output=1_000,
)
ENDING = Ending(
    call="model-1",
    status=200,
    ended="complete",
    sent=True,
    complete=True,
    usage=Usage(input_tokens=10, output_tokens=3, cache_write_5m_tokens=2, cache_write_1h_tokens=4),
    model="m-001",
)


@pytest.fixture
def told_of() -> Iterator[list[Span]]:
    with kept("egressd") as sink:
        yield sink.spans


def _told(told_of: list[Span], **changed: Any) -> Span:
    with trace.span(observed.NAME, "client"):
        observed.begun(BEGINNING)
        observed.ended(ENDING._replace(**changed))
    return told_of[-1]


def test_a_call_says_what_was_asked_and_what_was_used(told_of: list[Span]) -> None:
    span = _told(told_of)
    assert span.attributes == {
        "boxmaker.session": "run-1",
        "boxmaker.call": "model-1",
        "boxmaker.destination": "gemini",
        "boxmaker.observed_by": "egress",
        "boxmaker.auth": "key",
        "boxmaker.ended": "complete",
        "boxmaker.partial": False,
        "http.response.status_code": 200,
        "gen_ai.operation.name": "generate_content",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.conversation.id": "run-1",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m-001",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_write.input_tokens": 6,
    }
    assert (span.error, span.span_kind) == (None, "client")


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"status": 500}, "500"),
        ({"ended": "client-left", "complete": False}, "client-left"),
        ({"ended": "label-rose", "status": 0}, "label-rose"),
        ({"ended": "refused", "status": 403}, None),
    ],
)
def test_a_call_that_failed_says_how(told_of: list[Span], changed: dict[str, Any], error: str | None) -> None:
    assert _told(told_of, **changed).error == error


def test_what_a_harness_reports_is_marked_so(told_of: list[Span]) -> None:
    observed.reported(
        HarnessUsage(
            session="run-1",
            call="c",
            destination="chatgpt",
            model="gpt-5",
            input_tokens=5,
            output_tokens=None,
            cache_read_tokens=1,
            cache_write_5m_tokens=None,
            cache_write_1h_tokens=None,
            reasoning_tokens=None,
        )
    )
    assert (told_of[0].name, told_of[0].span_kind, told_of[0].error) == ("model.call", "client", None)
    assert told_of[0].attributes == {
        "boxmaker.session": "run-1",
        "boxmaker.call": "c",
        "boxmaker.destination": "chatgpt",
        "boxmaker.observed_by": "harness",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.conversation.id": "run-1",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.response.model": "gpt-5",
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 1,
    }
