import unicodedata

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.index.fold import fold, match_expression, spans, stem
from memoryd.index.query import query_terms

# Letters that both Python and the tables of `unicode61` know, with marks, signs and operators between them.
SCRIPTS = "abzKéñÅßøçшйλ東京都いろはカタッー한국어中文กาขी0479²_-*^\"'():.§[]… \n\t"
TEXTS = st.text(alphabet=st.sampled_from(SCRIPTS), max_size=60)


@given(st.text(max_size=80))
def test_a_term_is_letters_and_digits_alone(text: str) -> None:
    for term in fold(text):
        assert term
        assert all(char.isalnum() for char in term)


@given(TEXTS)
def test_a_text_folds_alike_whatever_its_case_and_accents(text: str) -> None:
    assert fold(text) == fold(text.upper().lower()) or "ß" in text
    assert fold(text) == fold(unicodedata.normalize("NFD", text))


@given(TEXTS)
def test_whatever_has_a_letter_has_a_term(text: str) -> None:
    assert bool(fold(text)) == any(char.isalnum() for char in text)


@given(st.lists(TEXTS, min_size=1, max_size=4), st.text(max_size=60))
def test_fts5_finds_a_text_by_any_part_of_it_and_never_sees_an_operator(words: list[str], hostile: str) -> None:
    db = apsw.Connection(":memory:")
    db.execute("CREATE VIRTUAL TABLE hits USING fts5(text, tokenize = 'unicode61')")
    db.execute("INSERT INTO hits VALUES (?)", (" ".join(fold(" ".join(words))),))
    for query in [*words, hostile]:
        terms = list(query_terms(query))
        if not terms:
            continue
        found = db.execute("SELECT count(*) FROM hits WHERE hits MATCH ?", (match_expression(terms),)).fetchone()
        assert found == (1,) or query is hostile


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The launch moved to Thursday!", "the launch move to thursday"),
        ("went going goes gone", "go go go go"),
        ("Melanie's kids’ bikes", "melani kid bicycl"),
        ("read_file don't", "read file don t"),
        ("café Ångström façade Straße", "cafe angstrom facad strass"),
        ("Zażółć gęślą jaźń", "zazolc gesla jazn"),
        ("three 3 III", "3 3 iii"),
        ("東京タワー", "東京 京タ タワ ワー 東 京 タ ワ ー"),
        ("猫", "猫"),
        ("iPhone15を買った", "iphone15 iphon 15 を買 買っ った を 買 っ た"),
        ("iPhone 15, 10am, café24", "iphon 15 10am 10 am cafe24 cafe 24"),
        ("Айфон15", "аифон15 аифон 15"),
        ("q3 v2 a1b2 12345x 0a1b2c3d abc12345", "q3 v2 a1b2 12345x 0a1b2c3d abc12345"),
        ("2024年", "2024 年"),
        ("고양이가", "고양 양이 이가 고 양 이 가"),
        ("ｶﾀｶﾅ", "カタ タカ カナ カ タ カ ナ"),
        ("がぎ", "がぎ が ぎ"),
    ],
)
def test_the_terms_of(text: str, terms: str) -> None:
    assert " ".join(fold(text)) == terms


def test_an_expression_holds_quoted_terms_and_or() -> None:
    assert match_expression(["near", "b"]) == '"near" OR "b"'


@given(TEXTS)
def test_spans_lie_in_the_text(text: str) -> None:
    for start, end, term in spans(text):
        assert 0 <= start < end <= len(text)
        assert term


def test_spans_name_the_terms_where_they_stand() -> None:
    assert [("Moved past 東京"[a:b], term) for a, b, term in spans("Moved past 東京")] == [
        ("Moved", "move"),
        ("past", "past"),
        ("東", "東"),
        ("東京", "東京"),
        ("京", "京"),
    ]


def test_spans_name_the_parts_of_a_glued_word() -> None:
    found = [("An iPhone15!"[a:b], term) for a, b, term in spans("An iPhone15!")]
    assert found == [("An", "an"), ("iPhone15", "iphone15"), ("iPhone", "iphon"), ("15", "15")]


def test_a_word_without_end_is_cut() -> None:
    assert fold("x" * 10_000) == [stem("x" * 64)]
    assert list(query_terms("x" * 500)) == [stem("x" * 64)]
