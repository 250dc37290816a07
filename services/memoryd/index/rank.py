"""How well a text answers a question, without a model. Pure.

What counts, in the order of what it brings:

- the terms that a text shares with the question, rare ones more: bm25 with gentle weights, since a turn of a
  conversation is short and its length says little;
- the terms that it leaves unsaid and the turns around it say, nearer ones more: an answer seldom repeats the question.
  A turn right after one that asks counts more for this, and may be a hit though it shares no term itself;
- whether it was said by somebody whom the question names;
- whether it states or asks: a question is rarely the answer to one, and a word or two rarely say much;
- terms of the question that stand together in it; a time for "when", a number for "how many"; and that it was said
  in the month or year that the question names.

The weights were chosen on the half of the bench's questions that is for choosing; `make bench` prints the other half.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log
from typing import Final

import msgspec

from memoryd.index.dates import Period, period, within
from memoryd.index.fold import fold
from memoryd.index.hits import Document, Frequencies
from memoryd.index.query import Meaning

_K1: Final = 0.9
_B: Final = 0.15
# What a term said some turns before or after is worth, by distance in turns.
_BEFORE: Final = (0.0, 0.6, 0.3, 0.25, 0.15)
_AFTER: Final = (0.0, 0.5, 0.3, 0.25, 0.15)
AROUND: Final = len(_BEFORE) - 1
# … more after a question; and little when the text says the term itself.
_ANSWERS: Final = 0.2
_SAID_AGAIN: Final = 0.2
# What one character of a run is worth, of which the pairs count as well.
_CHARACTER: Final = 0.3
_SPEAKER: Final = 0.4
_ASKING: Final = 0.25
_SHORT_TERMS: Final = 1.0
_TOGETHER: Final = 0.25
_WANTED: Final = 0.15
_IN_PERIOD: Final = 0.3
# Places of a term in one text that are looked at.
_PLACES: Final = 8

_WHEN: Final = re.compile(r"\b(when|what (day|date|month|year|time)|how long ago)\b", re.IGNORECASE)
_HOW_MANY: Final = re.compile(r"\bhow (many|much|long|old|far|often|big|tall|heavy)\b", re.IGNORECASE)
_TIME: Final = re.compile(
    r"\b(yesterday|today|tonight|tomorrow|ago|last|next|since|(mon|tues|wednes|thurs|fri|satur|sun)days?|weekend"
    r"|this (morning|week|month|year|summer|winter|spring|fall|autumn)"
    r"|january|february|march|april|june|july|august|september|october|november|december"
    r"|(19|20)\d\d|\d{1,2}(:\d\d)? ?[ap]m|\d{1,2}(st|nd|rd|th))\b",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(
    r"\d|\b(one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million|couple"
    r"|once|twice)\b",
    re.IGNORECASE,
)
# A line of a pasted conversation begins with who says it.
_SPEAKER_PREFIX: Final = re.compile(r"([^\W\d_][\w .'-]{0,39}): ")
# Every sentence is taken whole, so that none is looked at twice.
_SENTENCE: Final = re.compile(r"[^.!?。！？\n]+([?？]?)")
_ENDS_ASKING: Final = re.compile(r"[?？]\W{0,3}\Z")


class Question(msgspec.Struct, frozen=True):
    """A question as ranking sees it: its terms in order, each with its weight, and the kind of answer it wants."""

    weights: dict[str, float]
    mean_terms: float
    wants_time: bool
    wants_number: bool
    period: Period | None


class Evidence(msgspec.Struct, frozen=True):
    """What a text by itself says to a question: what each shared term is worth in it, and whether it asks something."""

    terms: dict[str, float]
    asks: bool


def question(query: str, terms: Mapping[str, Meaning], frequencies: Frequencies) -> Question:
    """Weigh a question's terms by how rare they are, and by how much they mean."""
    rows = max(frequencies.rows, 1)
    weights = {}
    for term, meaning in terms.items():
        held = min(frequencies.holding.get(term, 0), rows)
        share = _CHARACTER if meaning == "character" else 1.0
        weights[term] = share * log(1 + (rows - held + 0.5) / (held + 0.5))
    return Question(
        weights=weights,
        mean_terms=max(1.0, frequencies.terms_total / rows),
        wants_time=_WHEN.search(query) is not None,
        wants_number=_HOW_MANY.search(query) is not None,
        period=period(query),
    )


def evidence(asked: Question, document: Document) -> Evidence:
    """Weigh a text by itself."""
    length = _K1 * (1 - _B + _B * _length(document) / asked.mean_terms)
    counts = {term: 1 for term in asked.weights if term in document.beyond} if document.beyond else {}
    # Looking for a few terms in a text costs less than taking it apart, and most texts around hold none.
    for term in asked.weights:
        if count := document.terms.count(f" {term} "):
            # Two that share a space were counted as one.
            counts[term] = document.terms.split().count(term) if f" {term} {term} " in document.terms else count
    shared = {term: asked.weights[term] * count * (_K1 + 1) / (count + length) for term, count in counts.items()}
    return Evidence(terms=shared, asks=_ENDS_ASKING.search(document.text, max(0, len(document.text) - 8)) is not None)


def score(asked: Question, document: Document, at: int, turns: Sequence[Evidence]) -> float:
    """How well a text answers, with what stands around it (`turns[at]` is its own); 0 when it cannot be a hit."""
    mine = turns[at].terms
    after_question = at > 0 and turns[at - 1].asks
    if not mine and not after_question:
        return 0.0
    total = sum(mine.values()) + _TOGETHER * _together(asked, mine, document)
    for term, near in _around(at, turns).items():
        total += near * _SAID_AGAIN if term in mine else near
    return total * _manner(asked, document, turns[at])


def _around(at: int, turns: Sequence[Evidence]) -> dict[str, float]:
    """What each term is worth that the turns around say: that of the turn where it is worth most."""
    best: dict[str, float] = {}
    for place in range(max(0, at - AROUND), min(len(turns), at + AROUND + 1)):
        if place == at:
            continue
        turn, distance = turns[place], abs(place - at)
        share = (_BEFORE if place < at else _AFTER)[distance]
        if turn.asks and place == at - 1:
            share += _ANSWERS
        for term, worth in turn.terms.items():
            best[term] = max(best.get(term, 0.0), share * worth)
    return best


def _manner(asked: Question, document: Document, own: Evidence) -> float:
    """How a text is said, as a factor: by whom, whether it asks, how short it is, whether it has what is wanted."""
    text = document.text
    factor = 1.0
    if asked.wants_time and _TIME.search(text):
        factor += _WANTED
    if asked.wants_number and _NUMBER.search(text):
        factor += _WANTED
    if asked.period and within(document.time, asked.period):
        factor += _IN_PERIOD
    if not asked.weights.keys().isdisjoint(_speaker_terms(document)):
        factor += _SPEAKER
    if own.asks:
        factor *= 1 - _ASKING * _asking_share(text)
    return factor * _length(document) / (_length(document) + _SHORT_TERMS)


def _asking_share(text: str) -> float:
    """How much of a text are questions: many a statement ends in "and you?"."""
    asking = sum(len(sentence[0]) for sentence in _SENTENCE.finditer(text) if sentence[1])
    return asking / max(1, len(text))


def _speaker_terms(document: Document) -> list[str]:
    if document.author:
        return fold(document.author)
    prefix = _SPEAKER_PREFIX.match(document.text)
    return fold(prefix[1]) if prefix else []


def _length(document: Document) -> int:
    return document.terms.count(" ") - 1


def _together(asked: Question, mine: dict[str, float], document: Document) -> float:
    """The weight of terms that follow each other in the question and are near each other in the text as well."""
    pairs = [(first, second) for first, second in pairwise(asked.weights) if first in mine and second in mine]
    if not pairs:
        return 0.0
    places: dict[str, list[int]] = {}
    for at, term in enumerate(document.terms.split()):
        if term in mine:
            places.setdefault(term, []).append(at)
    total = 0.0
    for first, second in pairs:
        if first in document.beyond or second in document.beyond:
            continue
        gap = min(abs(b - a) for a in places[first][:_PLACES] for b in places[second][:_PLACES])
        total += min(asked.weights[first], asked.weights[second]) / max(1, gap)
    return total
