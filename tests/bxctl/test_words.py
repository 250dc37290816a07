"""The model's words on a terminal: safe however they are cut, and an emoji stays whole."""

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bxctl.chat.words import Words
from proto.escape import escape_lines

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@given(st.text(), st.lists(st.integers(0, 40)))
def test_any_cut_of_a_stream_prints_the_same(text: str, cuts: list[int]) -> None:
    words = Words()
    edges = [0, *sorted(cuts), len(text)]
    pieces = [text[begin:end] for begin, end in pairwise(edges)]
    assert "".join(map(words.safe, pieces)) == Words().safe("".join(pieces))


@given(st.text())
def test_nothing_that_moves_or_hides_is_left(text: str) -> None:
    assert not UNSAFE.search(Words().safe(text))


@given(st.text(st.characters(exclude_categories=("So", "Sk"))))
def test_without_an_emoji_it_is_what_every_other_text_is(text: str) -> None:
    assert Words().safe(text) == escape_lines(text)


def test_an_emoji_of_several_stays_whole() -> None:
    for emoji in ("❤\ufe0f", "👩\u200d💻", "👩🏽\u200d🚀", "🏳\ufe0f\u200d🌈"):
        assert Words().safe(f"a {emoji} b") == f"a {emoji} b"


def test_what_hides_behind_an_emoji_is_shown() -> None:
    assert Words().safe("👩\u200d\u200d\u200d") == "👩\u200d\\u{200d}\\u{200d}"
    assert Words().safe("a\u200db") == "a\\u{200d}b"
    assert Words().safe("👩\U000e0041") == "👩\\u{e0041}"
