"""The check of an entry: five rules, each with its number and its fixed sentence.

It is defence in depth. What a plausible planted fact could do is prevented elsewhere: a session that has read untrusted
content cannot write identity.

Source: M5a section 5, "The check"; contract, "The files of M5a" (rule 5 and the sentences).
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from memoryd.gate.invisible import INVISIBLE, is_needed


class Finding(NamedTuple):
    """The rule that an entry breaks, and what of the rule's it contains."""

    rule: int
    what: str

    @property
    def sentence(self) -> str:
        """The fixed sentence of the refusal."""
        return f"refused: the entry contains {self.what} (rule {self.rule})"


Check = Callable[[str], Finding | None]
"""Gives the first rule that an entry breaks, or None."""

_CONTROL: Final = Finding(1, "a control character")
HIDDEN: Final = Finding(2, "an invisible or direction-changing character")
_MARKUP: Final = Finding(3, "chat-template markup")
_PHRASE: Final = Finding(4, "an instruction phrase")
_HEADING: Final = Finding(5, "a heading of the memory block")

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Built from pieces: a model that reads this file could take the literal marks for its own.
_BAR: Final = "|"
_TAGS: Final = re.compile(
    "|".join([re.escape("<" + _BAR), re.escape(_BAR + ">"), "<" + "/?" + "(?:think|tool_call)" + ">"]), re.IGNORECASE
)
_PHRASES: Final = (
    "ignore previous instructions",
    "ignore all previous",
    "disregard previous instructions",
    "disregard all previous",
    "new instructions:",
    "system prompt:",
)
_HEADINGS: Final = ("# memory.md (", "# user.md (")
_SOUL_HEADING: Final = "# soul.md"


def check_of(*, allow_joiners: bool) -> Check:
    """The check as it is configured: with `allow_joiners`, joiners and selectors pass where a neighbour needs them."""

    def check(entry: str) -> Finding | None:
        return find(entry, allow_joiners=allow_joiners)

    return check


def find(entry: str, *, allow_joiners: bool = False) -> Finding | None:
    """The first rule that an entry breaks, or None."""
    if _CONTROLS.search(entry):
        return _CONTROL
    for hidden in INVISIBLE.finditer(entry):
        if not (allow_joiners and is_needed(entry, hidden.start())):
            return HIDDEN
    if _TAGS.search(entry):
        return _MARKUP
    folded = " ".join(entry.casefold().split())
    if any(phrase in folded for phrase in _PHRASES):
        return _PHRASE
    if any(map(_is_heading, entry.split("\n"))):
        return _HEADING
    return None


def _is_heading(line: str) -> bool:
    return line.rstrip() == _SOUL_HEADING or line.startswith(_HEADINGS)
