"""What the model's own words must not claim: that something was kept, found, forgotten or fetched. They did nothing.

The model imitates the sentences of a box that it has read. A pure watch over the pieces of one answer: the beginning is
held back until it is sure to be no such claim, and a claim that comes later is contradicted at once.
"""

import re
from typing import Final

NOTHING_DONE: Final = (
    "I did nothing: I keep, find, forget or fetch something only when you say “remember …”, “note …”, "
    "“what did I say about …”, “forget …” or “fetch URL”."
)
"""In place of words that claim an act."""

_HELD_CHARS: Final = 80
_DONE: Final = (
    r"(?:saved|noted|stored|recorded|remembered|memori[sz]ed|forgotten|deleted|removed|fetched|added|written|updated)"
)
_BEGINS: Final = re.compile(
    rf"\W*(?:{_DONE}\b|done\b\s*(?:[:.!]|$)|that was not done|here is what i found|the fetch of|i did nothing"
    r"|the tool \w+ answered|already holds)",
    re.IGNORECASE,
)
_CLAIMS: Final = re.compile(
    r"saved as a note|\b(?:memory|user|notes)\.md\b|takes effect in the next session"
    rf"|\bi(?:'ve| have)? (?:just |now |already )?{_DONE} (?:it|this|that|your|you|as|to)\b"
    rf"|\b(?:has|have) been (?:successfully )?{_DONE}\b"
    r"|\bi(?:'ll| will) (?:remember|forget|save|note|store|record|keep) (?:it|this|that|your|you)\b"
    r"|已经?(?:记住|记下|保存|忘记|删除)|(?:我会|我)记住",
    re.IGNORECASE,
)


def claims_an_act(text: str) -> bool:
    """Whether words of the model say that the box did something, in the ways that it has been heard to."""
    plain = text.replace("’", "'")
    return bool(_BEGINS.match(plain) or _CLAIMS.search(plain))


class Watch:
    """One answer in pieces, and what may be said of it so far. Once `caught`, no more of it is wanted."""

    def __init__(self) -> None:
        self._text = ""
        self._said_chars = 0
        self.caught = False

    def take(self, piece: str) -> str:
        """What to say after this piece: nothing while the beginning is held back."""
        self._text += piece
        return self._judge() if len(self._text) >= _HELD_CHARS else ""

    def end(self) -> str:
        """What to say at the end of the answer."""
        return "" if self.caught else self._judge()

    def _judge(self) -> str:
        if claims_an_act(self._text):
            self.caught = True
            return f"\n\n({NOTHING_DONE})" if self._said_chars else NOTHING_DONE
        new = self._text[self._said_chars :]
        self._said_chars = len(self._text)
        return new
