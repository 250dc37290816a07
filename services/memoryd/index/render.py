"""What the model is given for a recall: exactly two lines a hit, and no hit can pass for a source line.

What is shown of a text holds no control character and nothing that cannot be seen; an author who could be taken for
the owner or the assistant, or for nobody, stands between quotes.

Source: M5a section 5, "recall"; contract, "Recall".
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from memoryd.index.fold import plain
from memoryd.index.hits import Row
from proto.escape import clip, escape

# Everything that `str.splitlines` takes for the end of a line.
_LINE_BREAKS: Final = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_SAID: Final = {"assistant": "the assistant said", "call": "the assistant called"}
# Of a longer text the beginning is looked through and shown from.
_LOOK_CHARS: Final = 100_000
_AUTHOR_CHARS: Final = 80
_WORD: Final = re.compile(r"[^\W_]+")


def _like(letter: str) -> str:
    """A letter that is none of ASCII may look like any of them; told by what it is not, it compiles at once."""
    return rf"[^\x00-{chr(ord(letter) - 1)}{chr(ord(letter) + 1)}-\x7f]" if letter != " " else " "


_CLAIMS: Final = re.compile("|".join(rf"\b{''.join(map(_like, name))}\b" for name in ("the owner", "the assistant")))
_CHARS_KEPT: Final = 1 << 14


class _Seen(dict[int, str]):
    """Code point → what is shown of it: itself, a space for what separates, nothing for what cannot be seen."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        shown = char if char == "\\" or escape(char) == char else " " if char.isspace() else ""
        if len(self) < _CHARS_KEPT:
            self[code] = shown
        return shown


_seen: Final = _Seen()


def tag(row: Row) -> str:
    """The fixed word that says how far a hit can be believed."""
    if row.kind == "moved":
        return "identity"
    return "memory-tainted" if row.label.untrusted else "memory"


def source_line(number: int, row: Row) -> str:
    """The first line of a hit; `number` counts from 1."""
    return f"[{number}] {tag(row)} · {_where(row)} · {row.label.class_.value}"


def render(rows: Sequence[Row], snippet: Callable[[str], str]) -> str:
    """The answer for hits, best first. `snippet` cuts one line of text to what is shown of it."""
    lines = []
    for number, row in enumerate(rows, 1):
        text = row.text if len(row.text) <= _LOOK_CHARS else f"{row.text[:_LOOK_CHARS]}…"
        lines += [source_line(number, row), snippet(one_line(text))]
    return "\n".join(lines)


def no_matches(query: str) -> str:
    """The answer when nothing is found."""
    return f'(no matches for "{one_line(query)}")'


def one_line(text: str) -> str:
    """What can be seen of a text, its line breaks folded to one space."""
    line = _LINE_BREAKS.sub(" ", text).translate(_seen).strip()
    # A mark without a letter under it stands over what comes before the line.
    begin = next((at for at, char in enumerate(line) if not (char.isspace() or _is_mark(char))), len(line))
    return line[begin:]


def _where(row: Row) -> str:
    moment = datetime.fromisoformat(row.time).astimezone(UTC)
    if row.kind in {"moved", "dropped"}:
        return f"{row.kind} {moment:%Y-%m-%d} from {row.file}"
    if row.kind == "noted":
        return f"note, {moment:%Y-%m-%d %H:%M} UTC, session {row.session}"
    said = _SAID.get(row.role) or f"{'the owner' if row.author is None else _author(row.author)} said"
    return f"session {row.session}, {moment:%Y-%m-%d %H:%M} UTC, {said}"


def _is_mark(char: str) -> bool:
    return unicodedata.category(char)[0] == "M"


def _author(untrusted_author: str) -> str:
    """A name that somebody chose, which can be neither the owner nor the assistant, nor end its part of the line."""
    untrusted_name = untrusted_author[: _AUTHOR_CHARS + 1]
    name = clip(untrusted_name, _AUTHOR_CHARS).replace("\u0387", "·").replace("·", "\\u{b7}")
    words = " ".join(_WORD.findall(plain(untrusted_name.translate(_seen))))
    claims = any(re.search("[a-z]", found[0]) for found in _CLAIMS.finditer(words))
    if claims or not words:
        name = name.replace('"', '\\"')
        return f'"{name}"'
    return name
