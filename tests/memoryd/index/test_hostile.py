"""No text costs more than its length: what anybody may have said in a session is read, ranked and shown in bounded time.

The interpreter's lock is held throughout, so a text that costs seconds would stop the whole daemon. What would be
quadratic takes minutes at these lengths; the limit is far above what a slow machine needs.
"""

import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from memoryd.index import fold as folding
from memoryd.index.dates import period
from memoryd.index.fold import fold, spans
from memoryd.index.hits import Document, Frequencies, Row
from memoryd.index.query import Meaning, query_terms
from memoryd.index.rank import evidence, question, score
from memoryd.index.render import no_matches, one_line, render, source_line
from memoryd.index.snippet import LIMIT_CHARS, snippet
from memoryd.index.walk import DamagedRecord, WalkState, walk
from proto.labels import PRIVATE
from tests.memoryd.index.box import Box, user

# Each text goes through what examples go through elsewhere; under coverage most of the time measured would be its own.
pytestmark = pytest.mark.no_cover

CHARS = 60_000
LIMIT_S = 8.0


def repeated(part: str) -> str:
    return (part * (CHARS // len(part) + 1))[:CHARS]


TEXTS = {
    "a question at the end": repeated("ab, cd; ") + "\nis this it?",
    "no end of a sentence": repeated("ab cd ") + "?",
    "questions": repeated("a? "),
    "marks of question": repeated("?"),
    "one word": repeated("a"),
    "spaces": repeated(" "),
    "line breaks": repeated("\r\n\x85"),
    "digits": repeated("1"),
    "numbers": repeated("1 2 "),
    "months": repeated("in may "),
    "a day without end": "may " + repeated("1") + "x",
    "days": repeated("12th may 3 "),
    "times": repeated("12:34 "),
    "a name without end": repeated("a b."),
    "quotes": repeated('"\\'),
    "brackets": repeated("["),
    "objects": repeated('{"a":'),
    "possessives": repeated("a's "),
    "marks out of order": repeated("\u0301\u0316"),
    "marks after a letter": "a" + repeated("\u0301\u0316\u3099"),
    "marks of half width": repeated("\u0301\uff9e"),
    "marks and joiners": repeated("\u0316\u200d\u0301"),
    "unseen": repeated("\u200b\ufe0f"),
    "controls": repeated("\x00\x1b"),
    "ideographs": repeated("東京"),
    "one ideograph": repeated("東"),
    "syllables": repeated("\u1112\u1161\u11ab"),
    "long forms": repeated("\ufdfa")[: CHARS // 10],
    "another case": repeated("ßİŉ"),
    "each character": "".join(chr(code) for code in range(0x20000, 0x20000 + CHARS)),
    "the terms that are asked for": repeated("zebra launch moved thursday why "),
}
ASKED = "when did the zebra launch move to Thursday, how many 東京 in May 2024?"


@contextmanager
def bounded() -> Iterator[None]:
    """Time of this thread alone, however busy the machine is."""
    begun = time.thread_time()
    yield
    assert time.thread_time() - begun < LIMIT_S


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    "read",
    [
        fold,
        query_terms,
        period,
        one_line,
        no_matches,
        lambda text: list(spans(text)),
        lambda text: snippet(text, dict.fromkeys([*fold(text[:500]), *fold(text[-500:])], 1.0)),
        lambda text: source_line(1, row(text)),
        lambda text: render([row(text)], lambda line: snippet(line, {"zebra": 1.0})),
    ],
    ids=["fold", "query", "period", "line", "nothing", "spans", "snippet", "source", "render"],
)
def test_reading_is_bounded(read: Callable[[str], object], name: str) -> None:
    with bounded():
        read(TEXTS[name])


@pytest.mark.parametrize("name", TEXTS)
def test_ranking_is_bounded(name: str) -> None:
    text = TEXTS[name]
    terms = fold(text)
    wanted: dict[str, Meaning] = dict.fromkeys([*query_terms(ASKED), *terms[:400], *terms[-50:]], "word")
    asked = question(ASKED, wanted, Frequencies(rows=9, terms_total=90, holding={}))
    document = Document(1, "2026-09-20T14:02:00Z", None, text, f" {' '.join(terms)} ")
    with bounded():
        turns = [evidence(asked, document)] * 3
        score(asked, document, 1, turns)


def row(text: str) -> Row:
    return Row(
        kind="record",
        session="chat-1",
        record=0,
        time="2026-09-20T14:02:00Z",
        role="user",
        label=PRIVATE,
        text=text,
        author=text,
    )


@pytest.mark.parametrize("name", TEXTS)
def test_walking_is_bounded(name: str) -> None:
    with bounded():
        for line in (TEXTS[name].encode(), b'{"kind":"user","text":"' + TEXTS[name].encode()):
            with pytest.raises(DamagedRecord):
                walk("chat-1", line + b"\n", WalkState())


def test_what_comes_before_a_letter_is_all_that_can_be_out_of_order() -> None:
    """`unicodedata.normalize` takes quadratic time over a run of these: each must be one that `plain` looks for."""
    out_of_order = [
        char
        for char in map(chr, range(0x110000))
        if not "\ud800" <= char <= "\udfff" and unicodedata.combining(unicodedata.normalize("NFKD", char)[0])
    ]
    assert len(out_of_order) > 800
    for char in out_of_order:
        assert len(folding.plain("x" + (char + "\u0301\u0316") * 400)) < 200


def test_a_few_marks_stay_where_they_are() -> None:
    assert fold("e\u0301\u0316a") == fold("ea")
    assert fold("カ\u3099" * 3) == fold("ガガガ")
    assert fold("ｶﾞｷﾞ") == fold("ガギ")


def test_what_is_kept_of_characters_is_bounded() -> None:
    for begin in range(0x10000, 0x40000, 0x10000):
        fold("".join(chr(code) for code in range(begin, begin + 0x10000)))
    assert len(folding._bases) <= 1 << 16


def test_a_recall_over_long_records_is_bounded(box: Box) -> None:
    few = ("a question at the end", "one word", "ideographs", "marks out of order", "the terms that are asked for")
    for number, text in enumerate(TEXTS[name] for name in few):
        box.append(f"chat-{number}", user(f"zebra {text} wombat"), user(text), user(f"zebra {text}"))
    index = box.open()
    with bounded():
        index.session_updated("chat-0", box.sessions)
    index.catch_up(box.sessions)
    for query in (
        ASKED,
        " ".join(f"{number}a zebra" for number in range(40)),
        "東京" * 3 + TEXTS["each character"][:494],
    ):
        with bounded():
            answer = index.recall(query, 10)
        assert all(len(line) <= LIMIT_CHARS for line in answer.text.split("\n"))


def test_what_stands_deep_in_a_long_record_is_found_and_where_it_stands_is_known(box: Box) -> None:
    box.append("chat-1", user("filler words " * 7_000 + "wombat"), user("short words"))
    box.append("chat-2", user("a kangaroo"), user("filler " * 5))
    index = box.open()
    index.catch_up(box.sessions)
    assert [hit.session for hit in index.recall("wombat", 5).hits] == ["chat-1"]
    answer = index.recall("the wombat and the kangaroo", 5)
    assert {hit.session for hit in answer.hits} == {"chat-1", "chat-2"}
    assert "wombat" in answer.text
