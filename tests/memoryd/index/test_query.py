import pytest
from hypothesis import given

from memoryd.index.fold import fold
from memoryd.index.query import attempts, query_terms
from tests.memoryd.index.test_fold import TEXTS


@given(TEXTS)
def test_every_term_of_a_query_is_a_term_of_the_same_text(text: str) -> None:
    assert set(query_terms(text)) <= set(fold(text))


@given(TEXTS)
def test_whatever_has_a_letter_asks_for_something(text: str) -> None:
    has_letter = any(char.isalnum() for char in text)
    assert any(attempts(query_terms(text))) == has_letter


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("What did I say about the launch?", ["launch"]),
        ("what is it", ["what", "is", "it"]),
        ("launch Launch LAUNCHES", ["launch"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("猫", ["猫"]),
        ('NEAR(a b) * ^ "x" text:y -z', ["near", "b", "x", "text", "y", "z"]),
        ("… — !!", []),
        ("", []),
    ],
)
def test_what_is_asked_for(query: str, terms: list[str]) -> None:
    assert next(attempts(query_terms(query)), []) == terms


@pytest.mark.parametrize(
    ("query", "characters"),
    [
        ("猫の名前", "猫"),
        ("山が好き", "山好"),
        ("東京タワー", ""),
        ("猫叫什么名字", "猫叫名字"),
        ("我的猫", "猫"),
        ("成都", ""),
        ("책이 어디 있어", "책어있"),
        ("고양이가", ""),
        ("แมว", ""),
        ("猫", ""),
        ("the 猫 and ねこ", ""),
    ],
)
def test_a_character_that_may_be_a_word_is_asked_for_too(query: str, characters: str) -> None:
    assert [term for term, meaning in query_terms(query).items() if meaning == "character"] == list(characters)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("what is Will's number", ["will"]),
        ("the IT department", ["it"]),
        ("IT is down", ["it"]),
        ("is May there? And Don", ["may", "don"]),
        ("Will it rain", []),
        ("when I was there. May I?", []),
        ("What Will We Do", []),
        ("WHO IS IT", []),
        ("what will it be", []),
    ],
)
def test_a_word_of_no_meaning_with_a_capital_is_a_name(query: str, names: list[str]) -> None:
    assert [term for term in names if query_terms(query)[term] != "word"] == []
    common = {"will", "it", "may", "don", "who"} & query_terms(query).keys()
    assert {term for term in common if query_terms(query)[term] == "word"} == set(names)


def test_a_word_that_may_be_a_name_is_asked_for_when_nothing_else_is_found() -> None:
    assert list(attempts(query_terms("where does will put the zebra"))) == [["put", "zebra"], ["will", "put", "zebra"]]
    assert list(attempts(query_terms("what will it be"))) == [["what", "will", "it", "be"]]
    assert list(attempts(query_terms("…"))) == [[]]
