"""The tools that are shown to the model, and the two that loopd answers."""

from datetime import UTC, datetime

import pytest

from loopd.tools import own
from loopd.tools.calls import CALL_TOOL, OWN
from loopd.tools.catalogue import CORE, FURTHER, find
from proto.tools import TOOLS, parse_arguments

NOW = datetime(2026, 9, 24, 21, 2, 3, tzinfo=UTC)


def test_every_tool_that_is_shown_is_served_by_somebody() -> None:
    shown = {tool["function"]["name"] for tool in (*CORE, *FURTHER)}
    assert shown <= {CALL_TOOL, *OWN, *TOOLS}
    core = {name for name, tool in TOOLS.items() if tool.core}
    assert core <= {tool["function"]["name"] for tool in CORE}


@pytest.mark.parametrize(
    "arguments",
    [
        {"action": "add", "file": "memory", "text": "x"},
        {"action": "replace", "file": "user", "old": "x", "text": "y"},
        {"action": "remove", "file": "memory", "old": "x"},
        {"action": "note", "text": "x"},
        {"action": "consolidate", "file": "memory", "entries": [{"old": "x", "keep": True}, {"text": "y"}]},
    ],
)
def test_the_schema_of_memory_names_every_key_that_memoryd_takes(arguments: dict[str, object]) -> None:
    parse_arguments("memory", arguments)
    (schema,) = (tool["function"]["parameters"] for tool in CORE if tool["function"]["name"] == "memory")
    assert set(arguments) <= set(schema["properties"])


@pytest.mark.parametrize(
    "query", ["fetch a web page", "URL", "pages", "download this https address", "http_fetch", "FETCHING"]
)
def test_find_tool_finds_the_fetch(query: str) -> None:
    shown = find(query)
    assert shown.startswith('run these with call_tool:\n{"name":"http_fetch",')
    assert '"url":{"type":"string"' in shown


@pytest.mark.parametrize("query", ["", "weather", "記憶"])
def test_what_fits_nothing_gets_the_names(query: str) -> None:
    assert find(query) == "(no tool fits these words; the further tools are: http_fetch)"


def test_the_clock_says_the_day_too() -> None:
    assert own.answer("clock", {}, NOW) == "2026-09-24T21:02:03Z (Thursday)"


def test_find_tool_without_a_query_is_refused() -> None:
    assert own.answer("find_tool", {"query": "weather"}, NOW).startswith("(no tool")
    with pytest.raises(ValueError) as caught:
        own.answer("find_tool", {"words": 1}, NOW)
    assert str(caught.value) == 'refused: find_tool takes {"query": a text}'
