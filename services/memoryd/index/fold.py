"""What full-text search sees: text folded into terms, the same way when it is stored and when it is asked for.

Laws (tested): a term is a run of letters and digits, so that `unicode61` takes it for one token and no FTS5 operator
can be written with one; `fold(text)` is the same for a text in upper and lower case, with and without accents; every
text that holds a letter or a digit has a term.

A word with a number glued to it ("iPhone15", "10am") is itself and its two parts, so that it is found however it is
written. A run of a script that is written without spaces (Chinese, Japanese, Thai …) or with particles glued to its
words (Korean) becomes its overlapping pairs, and its single characters beside them, so that a word of any length is
found.
"""

import functools
import re
import threading
import unicodedata
from collections.abc import Iterator
from typing import Final

import Stemmer

from memoryd.index.words import OTHER_FORMS

# Which folding made an index. A change of what `fold` gives needs another number: old indexes are then rebuilt.
FOLDING: Final = 2

_TERM_LIMIT_CHARS: Final = 64
# Thai, Lao, Myanmar, Khmer, kana, Bopomofo, Hangul, Han. The middle dot of katakana (30FB) is punctuation.
_PAIRED: Final = (
    r"\u0e01-\u0e5b\u0e81-\u0edf\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e"
    r"\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7fb\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN: Final = re.compile(rf"(?P<paired>[{_PAIRED}]+)|[^\W_{_PAIRED}]+")
_ASCII_RUN: Final = re.compile(r"[a-z0-9]+")
# A word and a short number, either first. Longer mixtures are ids and digests, whose parts mean nothing.
_GLUED: Final = re.compile(r"([^\W\d_]{2,24})([0-9]{1,4})|([0-9]{1,4})([^\W\d_]{2,24})")
_MAY_BE_GLUED: Final = re.compile(r"[^\W\d_][0-9]|[0-9][^\W\d_]")
# Runs without a letter or a digit, in which marks may stand in any order.
_MARKS: Final = re.compile(r"([^\w\x00-\x7f]{16})([^\w\x00-\x7f]+)")
_POSSESSIVE: Final = re.compile(r"(?<=\w)['’]s\b")
# Letters that Unicode does not decompose into a base and an accent.
_BASES: Final = {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"}
_BASES_KEPT: Final = 1 << 15
_of_thread: Final = threading.local()


class _Bases(dict[int, str]):
    """Code point → the letters without accents that stand for it, filled as they are met."""

    def __missing__(self, code: int) -> str:
        base = _base(chr(code))
        if len(self) < _BASES_KEPT:
            self[code] = base
        return base


_bases: Final = _Bases()


def fold(text: str) -> list[str]:
    """The terms of a text in its order."""
    folded = plain(text)
    if folded.isascii():
        words = _ASCII_RUN.findall(folded)
        if _MAY_BE_GLUED.search(folded) is None:
            return [stem(word) for word in words]
        return [term for word in words for term in _terms(word[:_TERM_LIMIT_CHARS])]
    terms: list[str] = []
    for word, is_paired in runs(folded):
        if not is_paired:
            terms += _terms(word[:_TERM_LIMIT_CHARS])
        else:
            terms += pairs(word)
            if len(word) > 1:
                terms += word
    return terms


def runs(folded: str) -> Iterator[tuple[str, bool]]:
    """The runs of letters and digits of what `plain` gave, and whether a run is of a script that is taken in pairs."""
    return ((run[0], run["paired"] is not None) for run in _RUN.finditer(folded))


def parts(word: str) -> list[str]:
    """The word and the number that a folded run is glued of, in its order; nothing when it is not."""
    glued = _GLUED.fullmatch(word)
    return [part for part in glued.groups() if part] if glued else []


def pairs(run: str) -> list[str]:
    """The overlapping pairs of a run; a single character is itself."""
    if len(run) == 1:
        return [run]
    return [run[at : at + 2] for at in range(len(run) - 1)]


def match_expression(terms: list[str]) -> str:
    """What SQLite is asked: quoted terms joined by OR, and nothing else."""
    return " OR ".join(f'"{term}"' for term in terms)


def spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Where in a shown text its terms stand: start, end, term. For finding what to show around a match."""
    for run in _RUN.finditer(text.lower() if text.isascii() else text):
        start, word = run.start(), run[0]
        if run["paired"]:
            for at in range(len(word)):
                yield start + at, start + at + 1, word[at]
                if at + 1 < len(word):
                    yield start + at, start + at + 2, word[at : at + 2]
        elif word.isascii():
            word = word.lower()
            yield start, run.end(), stem(word)
            for part in parts(word):
                yield start, start + len(part), stem(part)
                start += len(part)
        else:
            for term in fold(word):
                yield start, run.end(), term


def plain(text: str) -> str:
    """Lower case, one form of each character, no accents, no possessive s."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _few_marks(text.replace("’", "'")))
        text = unicodedata.normalize("NFKC", text.casefold()).translate(_bases)
    text = text.lower()
    return _POSSESSIVE.sub("", text) if "'s" in text else text


def stem(word: str) -> str:
    """The stem of a folded word: English rules, after the forms that no rule explains. Others pass unharmed."""
    return _stem(word[:_TERM_LIMIT_CHARS])


@functools.lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    if not word.isascii():
        return word
    # A Stemmer serves one thread at a time.
    if (stemmer := getattr(_of_thread, "stemmer", None)) is None:
        stemmer = _of_thread.stemmer = Stemmer.Stemmer("english", 0)
    by_rule = str(stemmer.stemWord(OTHER_FORMS.get(word, word)))
    # The plural of another form: "photos" gives "photo", and that "photograph".
    return str(stemmer.stemWord(OTHER_FORMS[by_rule])) if by_rule in OTHER_FORMS else by_rule


@functools.lru_cache(maxsize=1 << 16)
def _terms(word: str) -> tuple[str, ...]:
    return (stem(word), *map(stem, parts(word)))


def _few_marks(text: str) -> str:
    """No long run of marks, which would cost its square to put in order; a term holds no mark in any case."""
    text = text.replace("\uff9e", "\u3099").replace("\uff9f", "\u309a")
    return _MARKS.sub(lambda run: run[1] + "".join(c for c in run[2] if unicodedata.category(c)[0] != "M"), text)


def _base(char: str) -> str:
    if base := _BASES.get(char):
        return base
    if (run := _RUN.match(char)) and run["paired"]:
        # The signs above and below the letters of Thai and its neighbours are no token characters for `unicode61`.
        mark = unicodedata.category(char)[0] == "M"
        return "" if mark else char if char.isalnum() else " "
    parts = unicodedata.normalize("NFD", char)
    return "".join(part for part in parts if unicodedata.category(part)[0] != "M")
