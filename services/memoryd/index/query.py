"""What a query asks for: its terms, and how much each means. Pure.

Laws (tested): a query's terms are terms that `fold` would give the same text; a query that holds a letter or a digit
asks for something.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from memoryd.index.fold import pairs, parts, plain, runs, stem
from memoryd.index.words import NO_MEANING, NO_MEANING_CHARACTERS, PERHAPS_NAMES

# A word; a character that may be a word by itself, of a script without spaces; a word of no meaning that is also a
# name ("will"); a word of no meaning.
Meaning = Literal["word", "character", "perhaps", "nothing"]

_HAN: Final = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Between kana, one Han character is a word and several are another.
_ALONE: Final = re.compile(f"(?<![{_HAN}])[{_HAN}](?![{_HAN}])")
_KANA: Final = re.compile(r"[\u3041-\u30fa\u30fc-\u30ff]")
_HANGUL: Final = re.compile(r"[\uac00-\ud7a3]{2,3}")
_WORD_OR_STOP: Final = re.compile(r"[^\W\d_]+|[.!?:;。！？\n]")


def query_terms(query: str) -> dict[str, Meaning]:
    """The terms of a query, each once, in its order."""
    terms: dict[str, Meaning] = {}
    names = _names(query)
    for word, is_paired in runs(plain(query)):
        if is_paired:
            terms |= dict.fromkeys(pairs(word), "word")
            for char in _words_of_one(word):
                terms.setdefault(char, "character")
            continue
        for one in (word, *parts(word)):
            if one not in NO_MEANING or one in names:
                terms[stem(one)] = "word"
            else:
                terms.setdefault(stem(one), "perhaps" if one in PERHAPS_NAMES else "nothing")
    return terms


def attempts(terms: Mapping[str, Meaning]) -> Iterator[list[str]]:
    """What to look for, in the query's order; each further attempt is for when no row holds a term of the one before.

    Words of no meaning are left out, unless nothing else is asked.
    """
    meant = [term for term, meaning in terms.items() if meaning in {"word", "character"}]
    if not meant:
        yield list(terms)
        return
    yield meant
    yield [term for term, meaning in terms.items() if meaning != "nothing"]


def _words_of_one(run: str) -> list[str]:
    """The characters of a run that may be words by themselves: "猫" of "猫の名前", each of a Chinese run."""
    if _KANA.search(run):
        return _ALONE.findall(run) if len(run) > 1 else []
    if _HANGUL.fullmatch(run):
        # A particle is glued to the word before it.
        return [run[0]]
    if len(run) < 3:
        return []
    return [char for char in run if _ALONE.match(char) and char not in NO_MEANING_CHARACTERS]


def _names(query: str) -> set[str]:
    """Words with a capital where none is needed, folded: "Will", "IT". None where most words have one."""
    names, words, begins = set(), 0, True
    for found in _WORD_OR_STOP.finditer(query):
        word = found[0]
        if not word[0].isalpha():
            begins = True
            continue
        words += 1
        if len(word) > 1 and word[0].isupper() and (not begins or word.isupper()):
            names.add(plain(word))
        begins = False
    return names if 2 * len(names) <= words else set()
