"""The rules of add, replace, remove and consolidate, and their sentences."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.identity.edit import IdentityEdit, Outcome, outcome
from memoryd.identity.entries import FILES, size
from memoryd.refusal import Refusal
from proto.tools import parse_arguments
from tests.memoryd.box import add, consolidate, remove, replace

MEMORY = FILES["memory"]
USER = FILES["user"]


def _make(arguments: dict[str, Any], entries: list[str]) -> Outcome:
    parsed = parse_arguments("memory", arguments)
    assert isinstance(parsed, IdentityEdit)
    return outcome(parsed, entries, FILES[arguments["file"]])


def _refusal(arguments: dict[str, Any], entries: list[str]) -> str:
    with pytest.raises(Refusal) as refused:
        _make(arguments, entries)
    return refused.value.sentence


def test_add_puts_a_trimmed_entry_last() -> None:
    assert _make(add("  b\n"), ["a"]).entries == ["a", "b"]


def test_add_refuses_a_duplicate() -> None:
    assert _refusal(add(" a "), ["a"]) == "memory.md already holds this entry"
    assert _refusal(add("a", "user"), ["a"]) == "user.md already holds this entry"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (" \n\t", "refused: the entry is empty"),
        ("a\n § \nb", "refused: an entry may not contain a line holding only §"),
    ],
)
def test_what_cannot_be_an_entry_is_refused(text: str, sentence: str) -> None:
    for arguments in (add(text), replace("a", text), consolidate({"old": "a", "text": text})):
        assert _refusal(arguments, ["a"]) == sentence


def test_the_limit_is_on_the_text_of_the_file() -> None:
    assert size(_make(add("x" * 2200), []).entries) == 2200
    assert size(_make(add("b" * 1096), ["a" * 1101]).entries) == 2200
    sentence = "memory.md would be 2,350 of 2,200 characters; use consolidate to move entries to notes"
    assert _refusal(add("x" * 346), ["y" * 2001]) == sentence
    assert _refusal(replace("a", "x" * 2350), ["a"]) == sentence
    assert _refusal(consolidate({"old": "a", "text": "x" * 2350}), ["a"]) == sentence
    sentence = "user.md would be 1,376 of 1,375 characters; use consolidate to move entries to notes"
    assert _refusal(add("é" * 1376, "user"), []) == sentence


def test_an_entry_may_go_though_the_file_stays_over_its_limit() -> None:
    assert _make(remove("a"), ["a", "x" * 3000]).entries == ["x" * 3000]


def test_replace_and_remove_need_the_exact_entry() -> None:
    sentence = "no entry of memory.md is exactly this old text; read the file as it is now"
    for arguments in (replace("a ", "b"), remove("A"), remove("")):
        assert _refusal(arguments, ["a"]) == sentence
    assert _make(replace("a", "c"), ["x", "a", "y"]) == Outcome(["x", "c", "y"], [])
    assert _make(remove("a"), ["x", "a", "y"]) == Outcome(["x", "y"], [("dropped", "a")])


def test_replace_refuses_what_the_file_holds_already() -> None:
    assert _refusal(replace("a", "b"), ["a", "b"]) == "memory.md already holds this entry"
    # Itself it may be: no two entries are alike then (M5a section 5).
    assert _make(replace("a", " a "), ["a", "b"]).entries == ["a", "b"]


def test_an_entry_that_a_hand_doubled_is_named_by_consolidate_only() -> None:
    assert _refusal(remove("a"), ["a", "a"]) == "memory.md holds this entry more than once; use consolidate to drop one"
    made = _make(consolidate({"old": "a", "keep": True}, {"old": "a", "drop": True}), ["a", "a"])
    assert made == Outcome(["a"], [("dropped", "a")])
    both = consolidate({"old": "a", "keep": True}, {"old": "a", "keep": True}, {"text": "b"})
    assert _make(both, ["a", "a"]).entries == ["a", "a", "b"]


def test_consolidate_makes_the_file_anew_in_the_order_given() -> None:
    arguments = consolidate(
        {"old": "d", "drop": True},
        {"text": " new "},
        {"old": "c", "move": True},
        {"old": "b", "text": "b2"},
        {"old": "a", "keep": True},
    )
    assert _make(arguments, ["a", "b", "c", "d"]) == Outcome(["new", "b2", "a"], [("dropped", "d"), ("moved", "c")])


@pytest.mark.parametrize(
    "items",
    [
        [],
        [{"old": "a", "keep": True}],
        [{"old": "a", "keep": True}, {"old": "b", "keep": True}, {"old": "b", "drop": True}],
        [{"old": "a", "keep": True}, {"old": "b", "keep": True}, {"old": "c", "drop": True}],
        [{"old": "a", "keep": True}, {"old": "B", "keep": True}],
    ],
    ids=["nothing", "one missing", "one twice", "a stranger", "a stale one"],
)
def test_consolidate_names_every_entry_exactly_once(items: list[dict[str, Any]]) -> None:
    sentence = "consolidate must name every entry of memory.md exactly once"
    assert _refusal(consolidate(*items), ["a", "b"]) == sentence


def test_consolidate_refuses_a_new_entry_that_is_like_another() -> None:
    sentence = "memory.md already holds this entry"
    assert _refusal(consolidate({"old": "a", "keep": True}, {"text": "a"}), ["a"]) == sentence
    assert _refusal(consolidate({"old": "a", "drop": True}, {"text": "b"}, {"text": "b "}), ["a"]) == sentence
    # What goes may come anew.
    assert _make(consolidate({"old": "a", "drop": True}, {"text": "a"}), ["a"]).entries == ["a"]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["keep", "move", "drop", "text"]))))
def test_nothing_that_consolidate_removes_is_lost(fates: list[tuple[str, str]]) -> None:
    """Kept, rewritten or in notes: every entry that was there is accounted for, in the order given."""
    items = [
        {"old": old, "text": f"{old}{at} anew"} if fate == "text" else {"old": old, fate: True}
        for at, (old, fate) in enumerate(fates)
    ]
    made = _make(consolidate(*items), [old for old, _ in fates])
    kept = Counter(old for old, fate in fates if fate == "keep")
    assert Counter(entry for entry in made.entries if " anew" not in entry) == kept
    assert made.to_notes == [
        ({"move": "moved", "drop": "dropped"}[fate], old) for old, fate in fates if fate in {"move", "drop"}
    ]
