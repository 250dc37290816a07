"""Entries: what is one, how they are stored, how they are counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.files import Unreadable
from memoryd.identity.entries import decode, is_separator, parse, render, size, trim

LINES = st.text(alphabet=st.sampled_from("§\\ \tab#\xa0日"), max_size=6)
ENTRIES = (
    st.lists(LINES, min_size=1, max_size=4)
    .filter(lambda lines: not any(map(is_separator, lines)))
    .map(lambda lines: trim("\n".join(lines)))
    .filter(lambda entry: entry and not any(map(is_separator, entry.split("\n"))))
)


@given(st.lists(ENTRIES))
def test_parse_undoes_render(entries: list[str]) -> None:
    assert parse(render(entries)) == entries
    assert size(entries) == len(render(entries))


@given(st.text() | st.text(alphabet=st.sampled_from("§ \t\n\r\xa0\x85\u2028x")))
def test_reading_is_settled_by_one_rendering(text: str) -> None:
    entries = parse(decode(text.encode(errors="replace")))
    assert parse(decode(render(entries).encode())) == parse(render(entries)) == entries
    assert size(entries) == len(render(entries))


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("x\n§\n\xa0§\n§\nz", ["x", "z"]),
        ("\xa0§\nfoo", ["foo"]),
        ("foo\n§\xa0\n \n", ["foo"]),
        ("\u2003§ \n\x85§\n\xa0§\xa0", []),
        ("§\xa0\nfoo\n\xa0§", ["§\xa0\nfoo\n\xa0§"]),
    ],
)
def test_what_trimming_would_make_a_separator_is_none_of_the_entry(text: str, entries: list[str]) -> None:
    assert parse(text) == entries


def test_many_such_lines_cost_no_more_than_others() -> None:
    assert parse("\xa0§\n" * 100_000 + "x" + "\n§\xa0" * 100_000) == ["x"]


@given(st.lists(st.sampled_from(["a", "\r", "\n", "\r\n", "\r\r\n", "b"])).map("".join))
def test_no_line_end_is_left_that_would_be_read_anew(text: str) -> None:
    assert decode(decode(text.encode()).encode()) == decode(text.encode())
    assert decode(text.replace("\r", "").encode()) == decode(text.encode()).replace("\r", "")


def test_the_text_of_a_file_has_no_final_newline() -> None:
    assert render(["a", "b\nc"]) == "a\n§\nb\nc"
    assert render([]) == ""


@pytest.mark.parametrize("line", ["§", " §", "§\t", "\t § "])
def test_a_separator_is_one_with_spaces_and_tabs_around_it(line: str) -> None:
    assert parse(f"a\n{line}\nb") == ["a", "b"]


@pytest.mark.parametrize("line", ["§§", "§ a", "x§", "\xa0§"])
def test_nothing_else_is_a_separator(line: str) -> None:
    assert parse(f"a\n{line}\nb") == [f"a\n{line}\nb"]


def test_empty_entries_are_none() -> None:
    assert parse("§\n\n§\na\n§\n \t\n") == ["a"]


def test_entries_are_trimmed_of_unicode_white_space_only() -> None:
    white = "".join(
        map(
            chr, [*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
        )
    )
    assert len(white) == 25
    assert trim(f"{white}a{white}b{white}") == f"a{white}b"
    assert trim("\x1fa\x1c\u200b") == "\x1fa\x1c\u200b"


def test_crlf_is_read_as_lf() -> None:
    assert parse(decode("a\r\nb\r\n§\r\nc\r\n".encode())) == ["a\nb", "c"]


def test_what_is_not_utf8_is_unreadable() -> None:
    with pytest.raises(Unreadable, match=r"it is not UTF-8 \(byte 3\)"):
        decode(b"ab\xff")
