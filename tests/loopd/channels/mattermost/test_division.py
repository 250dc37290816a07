"""The laws of an answer's division."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loopd.channels.mattermost.division import divide

LIMIT = 400
WORDS = st.sampled_from(
    [
        *("word", "two words ", "\n", "\n\n", "\r\n", "- a list\n", "x" * 150, "`code`"),
        *("```python\n", "```\n", "~~~\n", "````\n", "  ```\n"),
        *(
            "e\u0301",
            "\U0001f469\u200d\U0001f4bb",
            "\U0001f44d\U0001f3fd",
            "\U0001f1e9\U0001f1ea",
            "\u1112\u1161\u11ab",
        ),
        "The quick brown fox jumps over the lazy dog. " * 3,
    ]
)
TEXTS = st.lists(WORDS, max_size=60).map("".join)


def is_open(text: str) -> bool:
    """Whether a post ends inside a fence, by CommonMark's words (4.5)."""
    fence = ""
    for line in text.split("\n"):
        found = re.match(r" {0,3}(`{3,}|~{3,})(.*)$", line.rstrip("\r"), re.DOTALL)
        if not found:
            continue
        if not fence and ("`" not in found[2] or found[1][0] == "~"):
            fence = found[1]
        elif fence and found[1][0] == fence[0] and len(found[1]) >= len(fence) and not found[2].strip():
            fence = ""
    return bool(fence)


@settings(max_examples=200)
@pytest.mark.measured
@given(TEXTS)
@example("```\n" + "x" * 2000)
@example("\U0001f469\u200d" * 500)
def test_nothing_is_lost_nothing_is_too_long_and_every_fence_is_closed(text: str) -> None:
    parts = divide(text, LIMIT)
    assert "".join(part.body for part in parts) == text
    assert all(len(part.text) <= LIMIT for part in parts)
    assert all(part.body for part in parts[:-1])
    assert not any(is_open(part.text) for part in parts[:-1])


@settings(max_examples=100)
@given(TEXTS, TEXTS)
def test_a_text_that_grows_keeps_its_first_parts(text: str, more: str) -> None:
    before, after = divide(text, LIMIT), divide(text + more, LIMIT)
    assert after[: len(before) - 1] == before[:-1]


@pytest.mark.parametrize(
    "character",
    [
        "e\u0301",
        "\U0001f469\u200d\U0001f4bb",
        "\U0001f44d\U0001f3fd",
        "\U0001f1e9\U0001f1ea",
        "\u1112\u1161\u11ab",
        "\r\n",
        "☀\ufe0f",
    ],
)
def test_no_character_is_cut(character: str) -> None:
    for shift in range(6):
        parts = divide("x" * shift + character * 300, LIMIT)
        assert len(parts) > 1
        for part in parts[1:]:
            assert part.body.startswith(character)


def test_a_block_is_opened_again_as_what_it_was() -> None:
    first, second = divide("```python\n" + "line = 1\n" * 50 + "```\nafter", LIMIT)
    assert first.text.endswith("\n```")
    assert second.text.startswith("```python\nline = 1\n")
    assert second.text.endswith("```\nafter")


def test_what_fits_is_left_alone() -> None:
    assert [part.text for part in divide("x" * LIMIT, LIMIT)] == ["x" * LIMIT]
    assert [part.text for part in divide("", LIMIT)] == [""]


def test_it_is_cut_between_paragraphs_where_it_can() -> None:
    first, second = divide("a " * 150 + "\n\n" + "b " * 150, LIMIT)
    assert first.text.endswith("a \n\n")
    assert second.text.startswith("b")
