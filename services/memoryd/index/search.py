"""One recall: candidates from the index, ranked again with what stands around them, places shared by trust.

Deterministic: the same index and question give the same answer.
"""

import functools
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from memoryd.index.fold import query_terms
from memoryd.index.hits import Hit, RecallAnswer, UntrustedMode
from memoryd.index.lookup import Document, Lookup
from memoryd.index.rank import Question, own_score, question, score
from memoryd.index.render import no_matches, render, tag
from memoryd.index.snippet import snippet
from proto.labels import PRIVATE, Label, join

_CANDIDATES: Final = 48
# How many records on either side count.
_AROUND: Final = 2


class Scored(msgspec.Struct, frozen=True):
    """A candidate and its score."""

    document: Document
    score: float


def search(lookup: Lookup, query: str, k: int, mode: UntrustedMode) -> RecallAnswer:
    """At most `k` hits for a query, best first."""
    terms = query_terms(query)
    frequencies = lookup.frequencies(terms)
    asked = question(query, terms, frequencies)
    trusted = _ranked(lookup, asked, lookup.candidates(frequencies.holding, _CANDIDATES, untrusted=False))
    untrusted = []
    if mode != "never":
        untrusted = _ranked(lookup, asked, lookup.candidates(frequencies.holding, _CANDIDATES, untrusted=True))
    rows = [place.document.row for place in share_places(trusted, untrusted, k, mode)]
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
    return sorted([*trusted, *eligible], key=order)[:k] if room else list(trusted[:k])


def order(scored: Scored) -> tuple[float, float, str, int, int]:
    """Best first; of equals the newest; then one that does not depend on when the index was made."""
    row = scored.document.row
    moment = datetime.fromisoformat(row.time).timestamp()
    return (-scored.score, -moment, row.session, row.record, scored.document.rowid)


def _ranked(lookup: Lookup, asked: Question, rowids: Sequence[int]) -> list[Scored]:
    """Candidates of one trust in order, each scored with the turns around it."""
    found = {document.rowid: document for document in lookup.documents(rowids)}
    around = {
        rowid: lookup.neighbours(found[rowid]) if found[rowid].row.kind == "record" else [rowid] for rowid in rowids
    }
    missing = {near for nears in around.values() for near in nears}.difference(found)
    near_documents = {document.rowid: document for document in lookup.documents(sorted(missing))}
    own = {rowid: own_score(asked, document) for rowid, document in (found | near_documents).items()}
    scored = []
    for rowid, document in found.items():
        nears = around[rowid]
        at = nears.index(rowid)
        distances = [
            (place - at, own[near]) for place, near in enumerate(nears) if near != rowid and abs(place - at) <= _AROUND
        ]
        scored.append(Scored(document, score(asked, document, distances)))
    return sorted(scored, key=order)
