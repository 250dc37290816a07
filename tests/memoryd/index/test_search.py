import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.index.fold import fold
from memoryd.index.hits import Document, Frequencies, Row, UntrustedMode
from memoryd.index.rank import Question, evidence, question, score
from memoryd.index.search import Scored, order, share_places
from proto.labels import PRIVATE, DataClass, Label

TAINTED = Label(class_=DataClass.PRIVATE, untrusted=True)
FEW = Frequencies(rows=1000, terms_total=20_000, holding={"launch": 2, "thursday": 30, "move": 200})


def scored(points: float, *, untrusted: bool = False, time: str = "2026-09-20T14:02:00Z", record: int = 0) -> Scored:
    label = TAINTED if untrusted else PRIVATE
    row = Row(kind="record", session="chat-1", record=record, time=time, role="user", label=label, text="x")
    return Scored(row, points)


def ordered(points: list[float], *, untrusted: bool) -> list[Scored]:
    return sorted((scored(each, untrusted=untrusted) for each in points), key=order)


POINTS = st.lists(st.floats(min_value=0.1, max_value=9), max_size=12)


@given(POINTS, POINTS, st.integers(1, 10), st.sampled_from(["mixed", "last", "never"]))
def test_places_are_shared_by_trust(good: list[float], bad: list[float], k: int, mode: UntrustedMode) -> None:
    trusted, untrusted = ordered(good, untrusted=False), ordered(bad, untrusted=True)
    places = share_places(trusted, untrusted, k, mode)
    tainted = [place for place in places if place.row.label.untrusted]
    clean = [place for place in places if not place.row.label.untrusted]
    assert len(places) <= k
    assert clean == trusted[: len(clean)]
    assert tainted == untrusted[: len(tainted)]
    assert len(clean) >= min(len(trusted), math.ceil(k / 2))
    if mode == "never":
        assert places == trusted[:k]
    if mode == "last":
        assert places == [*clean, *tainted]
        assert len(clean) == min(len(trusted), k)
        assert len(places) == min(len(trusted) + len(untrusted), k)
    if mode == "mixed":
        assert all(a.score >= b.score for a, b in pairwise(places))
        assert all(place.score >= trusted[0].score / 2 for place in tainted if trusted)


@pytest.mark.parametrize(
    ("good", "bad", "k", "mode", "places"),
    [
        ([3, 2, 1], [9, 8, 7, 6], 5, "mixed", [9, 8, 3, 2, 1]),
        ([3], [9, 8, 7, 6], 5, "mixed", [9, 8, 7, 6, 3]),
        ([], [9, 8], 5, "mixed", [9, 8]),
        ([4, 1, 1, 1], [2, 1.9], 5, "mixed", [4, 2, 1, 1, 1]),
        ([4, 3, 2, 1], [9, 8], 1, "mixed", [4]),
        ([4, 3], [9, 8], 3, "last", [4, 3, 9]),
        ([4], [9, 8], 3, "never", [4]),
    ],
)
def test_who_takes_which_place(
    good: list[float], bad: list[float], k: int, mode: UntrustedMode, places: list[float]
) -> None:
    shared = share_places(ordered(good, untrusted=False), ordered(bad, untrusted=True), k, mode)
    assert [place.score for place in shared] == places


def test_of_equals_the_newest_is_first() -> None:
    old, new = scored(1.0), scored(1.0, time="2026-09-21T14:02:00Z", record=3)
    assert sorted([old, new], key=order) == [new, old]


def asked(query: str = "when did the launch move to thursday") -> Question:
    return question(query, dict.fromkeys(["launch", "move", "thursday"], "word"), FEW)


def document(text: str, author: str | None = None, time: str = "2026-09-20T14:02:00Z") -> Document:
    return Document(1, time, author, text, f" {' '.join(fold(f'{author} {text}' if author else text))} ")


def points(*turns: Document, at: int = 0, query: str = "the launch move thursday") -> float:
    wanted = asked(query)
    return score(wanted, turns[at], at, [evidence(wanted, turn) for turn in turns])


def test_a_rarer_term_weighs_more() -> None:
    weights = asked().weights
    assert weights["launch"] > weights["thursday"] > weights["move"] > 0


@given(st.lists(st.sampled_from(["launch", "move", "thursday", "x"]), max_size=12))
def test_a_term_counts_as_often_as_it_is_said(said: list[str]) -> None:
    found = evidence(asked(), document(" ".join(said))).terms
    assert set(found) == set(said) - {"x"}
    for term in found:
        count, length = said.count(term), 0.9 * (0.85 + 0.15 * len(said) / 20)
        assert math.isclose(found[term], asked().weights[term] * count * 1.9 / (count + length))


def test_a_text_that_shares_nothing_is_no_hit_unless_it_answers() -> None:
    nothing, asking = document("yes it was fine"), document("did the launch move ?")
    assert points(nothing) == 0
    assert points(document("launch"), nothing, at=1) == 0
    assert 0 < points(asking, nothing, at=1) < points(asking, document("yes the launch move was fine"), at=1)


def test_what_stands_around_counts_and_less_from_afar() -> None:
    match, said, other = document("the launch"), document("move it to thursday"), document("hello again now")
    alone = points(match, other, other, at=0)
    beside, further = points(match, said, other), points(match, other, said)
    assert beside > further > alone
    assert points(match, *[other] * 4, said) == points(match, *[other] * 5)


def test_a_statement_beats_the_question_it_repeats() -> None:
    assert points(document("the launch will move")) > points(document("the launch will move?"))


def test_who_is_asked_about_counts() -> None:
    wanted = question("what did Ada move", dict.fromkeys(["ada", "move"], "word"), FEW)
    by_ada, by_bob = document("I move house", "Ada"), document("I move house, Ada", "Bob")
    prefixed = document("Ada: I move house")
    scores = [score(wanted, each, 0, [evidence(wanted, each)]) for each in (by_ada, prefixed, by_bob)]
    assert scores[0] > scores[2]
    assert scores[1] > scores[2]


@pytest.mark.parametrize(
    ("query", "better", "worse"),
    [
        ("when did the launch move", "the launch was yesterday", "the launch was wonderful"),
        ("how many saw the launch", "seven saw the launch", "people saw the launch"),
        ("the launch and the move", "launch move one two three", "launch one two three move"),
    ],
)
def test_what_is_wanted_counts(query: str, better: str, worse: str) -> None:
    assert points(document(better), query=query) > points(document(worse), query=query)


def test_a_term_that_no_row_holds_is_weighed_too() -> None:
    empty = Frequencies(rows=0, terms_total=0, holding={})
    assert question("x", {"x": "word"}, empty).weights["x"] > 0


def test_what_was_said_in_the_month_that_is_asked_about_counts() -> None:
    then, later = document("launch", time="2023-07-09T10:00:00Z"), document("launch")
    assert points(then, query="the launch in July 2023") > points(later, query="the launch in July 2023")
    assert points(then, query="the launch") == points(later, query="the launch")
