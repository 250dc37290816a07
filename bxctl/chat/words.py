"""The model's own words, made safe for a terminal as they stream in: what could move the cursor or hide is shown as
code. Two characters that are invisible alone stay behind an emoji that needs them: joiner and variation selector.
"""

import unicodedata
from typing import Final

from proto.escape import escape_lines

_KEPT_AFTER_EMOJI: Final = frozenset("\u200d\ufe0f")
_EMOJI_CATEGORIES: Final = frozenset({"So", "Sk"})


class Words:
    """A stream of words; each piece is made safe with what came before it in mind."""

    def __init__(self) -> None:
        self._after_emoji = False

    def safe(self, untrusted_piece: str) -> str:
        """The piece as it may be printed."""
        return "".join(map(self._char, untrusted_piece))

    def _char(self, char: str) -> str:
        if char in _KEPT_AFTER_EMOJI and self._after_emoji:
            # One of them after an emoji; a second in a row is hidden text.
            self._after_emoji = char == "\ufe0f"
            return char
        self._after_emoji = unicodedata.category(char) in _EMOJI_CATEGORIES
        return escape_lines(char)
