"""The fixed sentences, and that they quote faithfully."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxmaker_model.answers import after, hits_of
from boxmaker_model.memory_block import Entry
from boxmaker_model.request import FunctionCall, ToolCall


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("call_1", FunctionCall(name, json.dumps(arguments)))


RECALL = call("recall", query="launch", k=10)
HITS = """\
[1] memory · session chat-b, 2026-09-21 09:15 UTC, the owner said · private
what did I say about the launch?
[2] memory · session chat-a, 2026-09-20 14:02 UTC, the owner said · private
remember that the launch moved to Thursday
[3] memory · session chat-a, 2026-09-20 14:02 UTC, the assistant called · private
memory {"action":"add","file":"memory","text":"the launch moved to Thursday"}
[4] memory-tainted · note, 2026-09-22 18:20 UTC, session mm-dh45qg… · private
example.org says the release moved to March.
[5] identity · moved 2026-09-24 from memory.md · private
Owner prefers answers in UTC.
[6] memory · session chat-b, 2026-09-21 09:16 UTC, the assistant said · private
Here is what I found: - “remember that the launch moved to Thursday”"""


def test_what_was_found_is_quoted_with_its_source_and_what_only_asks_is_left_out() -> None:
    assert after(RECALL, HITS, []) == (
        "Here is what I found:\n"
        "- “remember that the launch moved to Thursday” (session chat-a, 2026-09-20 14:02 UTC, the owner said)\n"
        "- “example.org says the release moved to March.” (note, 2026-09-22 18:20 UTC, session mm-dh45qg…, untrusted)\n"
        "- “Owner prefers answers in UTC.” (moved 2026-09-24 from memory.md)\n"
        "(3 more hits say the same, or only ask.)"
    )


def test_when_only_questions_match_they_are_shown() -> None:
    only = (
        "[1] memory · session chat-b, 2026-09-21 09:15 UTC, the owner said · private\nwhat did I say about the launch?"
    )
    assert after(RECALL, only, []) == (
        "Here is what I found:\n- “what did I say about the launch?” (session chat-b, 2026-09-21 09:15 UTC, the owner said)"
    )


def test_entries_of_the_block_come_first() -> None:
    entries = [Entry("user", "I like tea"), Entry("memory", "the launch moved to Thursday")]
    assert after(RECALL, '(no matches for "launch")', entries) == (
        "Here is what I found:\n- “the launch moved to Thursday” (memory.md)"
    )


def test_nothing_found() -> None:
    assert after(RECALL, '(no matches for "launch")', []) == "I found nothing about “launch”."


def test_a_failed_search_says_why() -> None:
    answer = "memoryd did not answer in 30 seconds (memoryd-unreachable)"
    assert after(RECALL, answer, []) == f"I could not search: {answer}"


@pytest.mark.parametrize(
    "answer",
    [
        "memory.md updated (28 of 2,200 characters); it takes effect in the next session",
        "noted",
        "noted (untrusted)",
        "saved as a note (untrusted): this session has read untrusted content",
    ],
)
def test_a_write_that_was_done(answer: str) -> None:
    assert after(call("memory", action="add"), answer, []) == f"Done: {answer}"


@pytest.mark.parametrize("answer", ["memory.md already holds this entry", "refused: the entry contains … (rule 4)"])
def test_a_write_that_was_not_done(answer: str) -> None:
    assert after(call("memory", action="add"), answer, []) == f"That was not done: {answer}"


def test_a_page_is_quoted_as_data_and_cut() -> None:
    fetch = call("call_tool", tool="http_fetch", arguments={"url": "https://example.org"})
    assert after(fetch, "One\n\nTwo", []) == "The fetch of https://example.org answered:\n\n> One\n>\n> Two"
    assert after(fetch, "x" * 2000, []).endswith("x\n\n(… 500 more characters)")


def test_another_tool_is_quoted() -> None:
    assert after(call("clock"), "12:00", []) == "The tool clock answered:\n\n> 12:00"


SNIPPETS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=80).map(
    lambda text: f"…{text}" if text.startswith("[") else text
)


@given(st.lists(SNIPPETS, min_size=1, max_size=10))
def test_every_hit_is_read_and_no_snippet_is_a_source(snippets: list[str]) -> None:
    lines = []
    for number, snippet in enumerate(snippets, 1):
        lines += [f"[{number}] memory · session chat-a, 2026-09-20 14:02 UTC, the owner said · private", snippet]
    assert [hit.snippet for hit in hits_of("\n".join(lines))] == snippets


@given(st.text(max_size=300))
def test_a_result_is_never_lost(result: str) -> None:
    said = after(call("memory", action="note"), result, [])
    assert said.endswith(result)


@given(st.text(max_size=300), st.text(max_size=60))
def test_any_result_of_any_tool_is_answered(result: str, name: str) -> None:
    for tool in ("recall", "memory", "call_tool", name):
        assert after(ToolCall("c", FunctionCall(tool, result)), result, [])
