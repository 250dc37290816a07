"""One recall: candidates from the index, ranked again with what stands around them, places shared by trust.

Deterministic: the same index and question give the same answer.
"""

import functools
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from math import inf
from typing import Final

import msgspec

from memoryd.index.hits import Hit, RecallAnswer, Row, UntrustedMode
from memoryd.index.lookup import Lookup
from memoryd.index.query import attempts, query_terms
from memoryd.index.rank import AROUND, Question, evidence, question, score
from memoryd.index.render import no_matches, render, tag
from memoryd.index.snippet import snippet
from proto.labels import PRIVATE, Label, join

_CANDIDATES: Final = 24
# Of a question with more, the terms that fewest rows hold.
_TERMS: Final = 64
# Turns this near to a candidate are ranked with it.
_BESIDE: Final = 2
_REACH_RECORDS: Final = AROUND + _BESIDE


class Scored(msgspec.Struct, frozen=True):
    """A row that may be a hit, and its score."""

    row: Row
    score: float


def search(lookup: Lookup, query: str, k: int, mode: UntrustedMode) -> RecallAnswer:
    """At most `k` hits for a query, best first."""
    asked, holding = _asked(lookup, query)
    trusted = _ranked(lookup, asked, lookup.candidates(holding, _CANDIDATES, untrusted=False), k)
    untrusted = []
    if mode != "never":
        untrusted = _ranked(lookup, asked, lookup.candidates(holding, _CANDIDATES, untrusted=True), k)
    rows = [scored.row for scored in share_places(trusted, untrusted, k, mode)]
    if not rows:
        return RecallAnswer(text=no_matches(query), label=PRIVATE, hits=())
    label = PRIVATE
    for row in rows:
        label = join(label, Label(class_=row.label.class_, untrusted=tag(row) == "memory-tainted"))
    hits = tuple(
        Hit(kind=row.kind, session=row.session, epoch=row.epoch, record=row.record, time=row.time, label=row.label)
        for row in rows
    )
    text = render(rows, functools.partial(snippet, weights=asked.weights))
    return RecallAnswer(text=text, label=label, hits=hits)


def share_places(trusted: Sequence[Scored], untrusted: Sequence[Scored], k: int, mode: UntrustedMode) -> list[Scored]:
    """Who takes the k places, best first; both lists are in order.

    `mixed`: by rank, ceil(k/2) places to trusted hits when so many match, and an untrusted hit takes one only if it
    scores at least half of the best trusted hit. `last`: what the trusted ones leave. `never`: no untrusted hit.
    """
    if mode == "never":
        return list(trusted[:k])
    if mode == "last":
        return [*trusted, *untrusted][:k]
    worth = trusted[0].score / 2 if trusted else 0.0
    room = k - min(len(trusted), (k + 1) // 2)
    eligible = [scored for scored in untrusted if scored.score >= worth][:room]
    return sorted([*trusted, *eligible], key=order)[:k]


def order(scored: Scored) -> tuple[float, float, str, int, str]:
    """Best first; of equals the newest; then one that does not depend on when the index was made.

    Rows of one record keep their order.
    """
    row = scored.row
    moment = datetime.fromisoformat(row.time).timestamp()
    return (-scored.score, -moment, row.session, row.record, row.kind)


def _asked(lookup: Lookup, query: str) -> tuple[Question, dict[str, int]]:
    """The question to rank by and, of its terms, how many rows hold each that any holds."""
    meanings = query_terms(query)
    for terms in attempts(meanings):
        frequencies = lookup.frequencies(terms)
        if frequencies.holding:
            break
    held = frequencies.holding
    rarest = set(sorted(terms, key=lambda term: (held.get(term, inf), term))[:_TERMS])
    kept = {term: meanings[term] for term in terms if term in rarest}
    return question(query, kept, frequencies), {term: rows for term, rows in held.items() if term in rarest}


def _ranked(lookup: Lookup, asked: Question, rowids: Sequence[int], k: int) -> list[Scored]:
    """The best of the candidates of one trust and the turns beside them, scored with what stands around them, in order.

    At least `k` when so many match.
    """
    points: dict[int, float] = {}
    wanted = set(rowids)
    for passage in lookup.passages(wanted, _REACH_RECORDS, asked.weights.keys()):
        turns = [evidence(asked, document) for document in passage]
        places = [at for at, document in enumerate(passage) if document.rowid in wanted]
        beside = {near for at in places for near in range(max(0, at - _BESIDE), min(len(passage), at + _BESIDE + 1))}
        points |= {passage[at].rowid: score(asked, passage[at], at, turns) for at in beside}
    best: list[tuple[int, float]] = []
    by_points = sorted((pair for pair in points.items() if pair[1] > 0), key=lambda pair: -pair[1])
    for worth, equals in groupby(by_points, key=lambda pair: pair[1]):
        if len(best) >= k:
            break
        best += [(rowid, worth) for rowid in lookup.newest_first(rowid for rowid, _ in equals)]
    return sorted((Scored(lookup.row(rowid), worth) for rowid, worth in best[:k]), key=order)
