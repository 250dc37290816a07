"""What the model is given for a recall: exactly two lines a hit, and no hit can pass for a source line.

Source: M5a section 5, "recall"; contract, "Recall".
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from memoryd.index.hits import Row
from proto.escape import escape

# Everything that `str.splitlines` takes for the end of a line.
_LINE_BREAKS: Final = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_SAID: Final = {"assistant": "the assistant said", "call": "the assistant called"}


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
        lines += [source_line(number, row), snippet(one_line(row.text))]
    return "\n".join(lines)


def no_matches(query: str) -> str:
    """The answer when nothing is found."""
    return f'(no matches for "{one_line(query)}")'


def one_line(text: str) -> str:
    """A text with its line breaks folded to one space."""
    return _LINE_BREAKS.sub(" ", text).strip()


def _where(row: Row) -> str:
    moment = datetime.fromisoformat(row.time).astimezone(UTC)
    if row.kind in {"moved", "dropped"}:
        return f"{row.kind} {moment:%Y-%m-%d} from {row.file}"
    if row.kind == "noted":
        return f"note, {moment:%Y-%m-%d %H:%M} UTC, session {row.session}"
    said = _SAID.get(row.role) or f"{'the owner' if row.author is None else _author(row.author)} said"
    return f"session {row.session}, {moment:%Y-%m-%d %H:%M} UTC, {said}"


def _author(untrusted_author: str) -> str:
    """A name that somebody chose, which can be neither the owner nor the assistant, nor end its part of the line."""
    name = escape(untrusted_author).replace("·", "\\u{b7}")
    return f'"{name}"' if name.strip().casefold() in {"the owner", "the assistant"} else name
