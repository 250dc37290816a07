"""Lines that end between words, as a terminal would show them."""

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bxctl.chat.wrap import Wrap

TEXTS = st.text(st.sampled_from("abcdefgh  \n星期é"), max_size=120)


def _shown(written: str) -> list[str]:
    """The lines of a terminal after this was written: it knows line feeds, going back, and clearing to the end."""
    lines = [""]
    column = 0
    for back, char in re.findall(r"\x1b\[(\d+)D\x1b\[K|([^\x1b])", written):
        if back:
            column -= int(back)
            lines[-1] = lines[-1][:column]
        elif char == "\n":
            lines.append("")
            column = 0
        else:
            lines[-1] += char
            column += 1
    return lines


def _put(text: str, columns: int) -> str:
    return Wrap(columns).put(text)


def test_a_word_that_does_not_fit_is_taken_to_the_next_line() -> None:
    assert _shown(_put("a lighthouse is a tower", 11)) == ["a ", "lighthouse", "is a tower"]


def test_a_word_longer_than_the_line_is_cut() -> None:
    assert _shown(_put("abcdefghij", 5)) == ["abcd", "efgh", "ij"]


def test_languages_without_spaces_are_cut_anywhere() -> None:
    assert _shown(_put("星期四星期四", 6)) == ["星期", "四星", "期四"]


def test_code_is_left_as_it_is() -> None:
    code = "```\nx = 1 + 2 + 3 + 4\n```\n"
    assert _put(code, 8) == code
    assert _shown(_put(f"{code}one two three", 8)) == [*code.split("\n")[:-1], "one two", "three"]


@given(TEXTS, st.integers(3, 30))
def test_nothing_but_line_ends_and_spaces_at_them_changes(text: str, columns: int) -> None:
    shown = "\n".join(_shown(_put(text, columns)))
    assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", text)


@given(TEXTS, st.integers(3, 30), st.lists(st.integers(0, 120)))
def test_any_cut_of_the_stream_is_written_the_same(text: str, columns: int, cuts: list[int]) -> None:
    wrap = Wrap(columns)
    edges = [0, *sorted(cuts), len(text)]
    pieces = [text[begin:end] for begin, end in pairwise(edges)]
    assert "".join(map(wrap.put, pieces)) == _put("".join(pieces), columns)


@given(st.text(st.sampled_from("abcdefgh  \n"), max_size=120), st.integers(3, 30))
def test_no_line_reaches_the_last_column(text: str, columns: int) -> None:
    assert max(map(len, _shown(_put(text, columns)))) < columns
