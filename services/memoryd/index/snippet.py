"""What is shown of a hit: the part of its text where most of the question stands."""

import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import Final

from memoryd.index.fold import spans

LIMIT_CHARS: Final = 600
_CUT: Final = "…"
# How much is shown before the first match and after the last.
_LEAD_CHARS: Final = 80


def snippet(text: str, weights: Mapping[str, float]) -> str:
    """At most 600 characters of a text of one line, `…` at each cut; a leading `[` never stands first.

    `weights` are the question's terms.
    """
    limit = LIMIT_CHARS - 1 if _is_bracket(text[:1]) else LIMIT_CHARS
    if len(text) <= limit:
        return _guarded(text)
    start = _start(text, weights)
    start, end = (0, limit - 1) if start == 0 else (start, start + LIMIT_CHARS - 2)
    if end >= len(text):
        # Everything to the end: one mark is enough.
        return _CUT + text[len(text) - (LIMIT_CHARS - 1) :]
    return (_CUT if start else "") + _guarded(text[start:end], cut=start > 0) + _CUT


def _guarded(text: str, *, cut: bool = False) -> str:
    return _CUT + text if _is_bracket(text[:1]) and not cut else text


def _is_bracket(char: str) -> bool:
    """Whether this is `[`, in any of its widths."""
    return unicodedata.normalize("NFKC", char) == "["


def _start(text: str, weights: Mapping[str, float]) -> int:
    """Where to begin, so that the terms that weigh most together are shown."""
    found = [(start, term) for start, _, term in spans(text) if term in weights]
    width = LIMIT_CHARS - 2 * _LEAD_CHARS - 2
    # Whole numbers, so that what is added and taken away again leaves nothing.
    millionths = {term: round(weight * 1_000_000) for term, weight in weights.items()}
    best, best_weight, weight, last = 0, -1, 0, 0
    held: Counter[str] = Counter()
    for start, term in found:
        while last < len(found) and found[last][0] < start + width:
            entering = found[last][1]
            if not held[entering]:
                weight += millionths[entering]
            held[entering] += 1
            last += 1
        if weight > best_weight:
            best, best_weight = start, weight
        held[term] -= 1
        if not held[term]:
            weight -= millionths[term]
    begin = max(0, best - _LEAD_CHARS)
    if begin <= _LEAD_CHARS // 2:
        return 0
    # Not in the middle of a word, when a space is near.
    space = text.find(" ", begin, begin + _LEAD_CHARS // 2)
    return begin if space < 0 else space + 1
