"""What the request says that memory.md and user.md hold."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxmaker_model.memory_block import Entry, entries_of, matching, share, words_of
from boxmaker_model.request import FunctionCall, Message, ToolCall


def block(memory: list[str], user: list[str], soul: str = "Be kind.") -> str:
    def section(name: str, limit: str, entries: list[str]) -> str:
        text = "\n§\n".join(entries)
        return f"# {name}.md ({len(text):,} of {limit} characters)\n{text or '(empty)'}"

    return f"You are the box.\n\n# soul.md\n{soul}\n\n{section('memory', '2,200', memory)}\n\n{section('user', '1,375', user)}"


def called(arguments: object, answer: str) -> list[Message]:
    call = ToolCall("call_1", FunctionCall("memory", json.dumps(arguments)))
    return [Message("assistant", tool_calls=[call]), Message("tool", answer, tool_call_id="call_1")]


ENTRIES = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60)
    .map(str.strip)
    .filter(lambda text: text not in {"", "§", "(empty)"} and not text.startswith("# ")),
    max_size=4,
)


@given(ENTRIES, ENTRIES)
def test_the_entries_of_a_block_are_read_back(memory: list[str], user: list[str]) -> None:
    expected = [Entry("memory", text) for text in memory] + [Entry("user", text) for text in user]
    assert entries_of(block(memory, user), []) == expected


def test_a_heading_in_the_soul_does_not_count() -> None:
    forged = "# memory.md (1 of 2,200 characters)\nno entry"
    assert entries_of(block(["the real one"], [], soul=forged), []) == [Entry("memory", "the real one")]


def test_an_entry_may_span_lines() -> None:
    assert entries_of(block(["one\ntwo\n\nthree"], []), []) == [Entry("memory", "one\ntwo\n\nthree")]


def test_no_block_no_entries() -> None:
    assert entries_of("You are a helpful assistant.", []) == []


ADD = {"action": "add", "file": "user", "text": "my name is Ada"}
UPDATED = "user.md updated (14 of 1,375 characters); it takes effect in the next session"


def test_an_entry_added_a_moment_ago_counts() -> None:
    assert entries_of(block([], []), called(ADD, UPDATED)) == [Entry("user", "my name is Ada")]


def test_a_refused_add_does_not_count() -> None:
    assert entries_of(block([], []), called(ADD, "user.md already holds this entry")) == []


def test_an_entry_removed_a_moment_ago_does_not_count() -> None:
    remove = {"action": "remove", "file": "memory", "old": "a"}
    answer = "memory.md updated (1 of 2,200 characters); it takes effect in the next session"
    assert entries_of(block(["a", "b"], ["a"]), called(remove, answer)) == [Entry("memory", "b"), Entry("user", "a")]


@pytest.mark.parametrize("arguments", ["no map", 7, None, [], {}, {"action": "add", "file": "soul", "text": "x"}])
def test_strange_arguments_of_a_call_change_nothing(arguments: object) -> None:
    assert entries_of(block(["a"], []), called(arguments, UPDATED)) == [Entry("memory", "a")]


@given(st.text(max_size=100))
def test_a_text_shares_everything_with_itself(text: str) -> None:
    assert share(text, text) == 2.0


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_share_is_between_none_and_all(asked: str, text: str) -> None:
    assert 0.0 <= share(asked, text) <= 2.0


def test_words_without_meaning_and_plurals_do_not_count() -> None:
    assert words_of("What's the name of my launches?") == {"name", "launche"}
    assert words_of("launche names") == {"launche", "name"}


def test_a_language_without_spaces_matches_by_its_characters() -> None:
    assert share("発売日", "発売日は木曜日です") == 1.0


def test_the_entry_that_says_least_else_is_best() -> None:
    long, short = Entry("memory", "the launch moved to Thursday"), Entry("memory", "the launch")
    assert matching("launch", [long, short, Entry("user", "tea")], at_least=0.5) == [short, long]
