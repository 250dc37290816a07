"""How well a text answers a question, without a model. Pure.

A text counts by the terms that it shares with the question, rare ones more (bm25 with gentle weights, since a turn of a
conversation is short and its length says little); by terms of the question that stand together in it; by what the turns
around it share with the question, since an answer often leaves unsaid what was asked; by who said it; and by holding
what the question asks for: a time for "when", a number for "how many".
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from memoryd.index.lookup import Document, Frequencies

_K1: Final = 0.9
_B: Final = 0.35
_BEFORE: Final = 0.30
_AFTER: Final = 0.20
_FAR: Final = 0.10
_TOGETHER: Final = 0.25
_AUTHOR: Final = 0.15
_CUE: Final = 0.15

_WHEN: Final = re.compile(r"\b(when|what (day|date|month|year|time)|how long ago)\b", re.IGNORECASE)
_HOW_MANY: Final = re.compile(r"\bhow (many|much|long|old|far|often|big|tall)\b", re.IGNORECASE)
_TIME: Final = re.compile(
    r"\b(yesterday|today|tonight|tomorrow|ago|last|next|this (morning|week|month|year|summer|winter|spring|fall|autumn)"
    r"|(mon|tues|wednes|thurs|fri|satur|sun)day|weekend|january|february|march|april|june|july|august|september|october"
    r"|november|december|since|(19|20)\d\d|\d{1,2}(:\d\d)? ?[ap]m|\d{1,2}(st|nd|rd|th))\b",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(
    r"\d|\b(one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million|couple|once|twice)\b",
    re.IGNORECASE,
)


class Question(msgspec.Struct, frozen=True):
    """A question as ranking sees it: its terms in order, each with its weight, and the kind of answer it wants."""

    weights: dict[str, float]
    mean_terms: float
    wants_time: bool
    wants_number: bool


def question(query: str, terms: Sequence[str], frequencies: Frequencies) -> Question:
    """Weigh a question's terms by how rare they are."""
    rows = max(frequencies.rows, 1)
    weights = {}
    for term in terms:
        held = frequencies.holding.get(term, 0)
        weights[term] = math.log(1 + (rows - held + 0.5) / (held + 0.5))
    return Question(
        weights=weights,
        mean_terms=max(1.0, frequencies.terms_total / rows),
        wants_time=_WHEN.search(query) is not None,
        wants_number=_HOW_MANY.search(query) is not None,
    )


def own_score(asked: Question, document: Document) -> float:
    """What a text shares with a question by itself."""
    counts = Counter(document.terms)
    length = _K1 * (1 - _B + _B * len(document.terms) / asked.mean_terms)
    total = 0.0
    for term, weight in asked.weights.items():
        if count := counts.get(term):
            total += weight * count * (_K1 + 1) / (count + length)
    return total + _TOGETHER * _together(asked, document.terms)


def score(asked: Question, document: Document, around: Sequence[tuple[int, float]]) -> float:
    """A document's score with what stands around it: pairs of distance in turns (negative before) and own score."""
    own = own_score(asked, document)
    total = own
    for distance, other in around:
        if distance == -1:
            total += _BEFORE * other
        elif distance == 1:
            total += _AFTER * other
        else:
            total += _FAR * other
    factor = 1.0
    if asked.wants_time and _TIME.search(document.row.text):
        factor += _CUE
    if asked.wants_number and _NUMBER.search(document.row.text):
        factor += _CUE
    return total * factor


def _together(asked: Question, terms: Sequence[str]) -> float:
    """The weight of neighbours in the question that are near in the text as well."""
    places: dict[str, list[int]] = {}
    for at, term in enumerate(terms):
        if term in asked.weights:
            places.setdefault(term, []).append(at)
    if len(places) < 2:
        return 0.0
    total = 0.0
    wanted = list(asked.weights)
    for first, second in pairwise(wanted):
        if first in places and second in places:
            gap = min(abs(b - a) for a in places[first][:8] for b in places[second][:8])
            total += min(asked.weights[first], asked.weights[second]) / max(1, gap)
    return total
