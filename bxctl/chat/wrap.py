"""Lines that end between words, for text that streams in: what does not fit is taken back and begun on the next line.

Code between fences is left as it is, for it is copied more often than read.
"""

from typing import Final

from prompt_toolkit.utils import get_cwidth

_TAB_COLUMNS: Final = 8
_WIDE: Final = 2
_FENCE: Final = "```"


class Wrap:
    """One text on its way to a terminal of so many columns; the last column is never used."""

    def __init__(self, columns: int) -> None:
        self._limit = max(columns - 1, 1)
        self._column = 0
        self._word = ""
        self._line = ""
        self._in_code = False

    def put(self, safe_piece: str) -> str:
        """What to write for the next piece of the text, which is safe for a terminal already."""
        return "".join(map(self._char, safe_piece))

    def _char(self, char: str) -> str:
        if char == "\n":
            if self._line.startswith(_FENCE):
                self._in_code = not self._in_code
            self._column, self._word, self._line = 0, "", ""
            return char
        self._line = (self._line + char)[: len(_FENCE)]
        if self._in_code:
            return char
        if char == "\t":
            self._column += _TAB_COLUMNS - self._column % _TAB_COLUMNS
            self._word = ""
            return char
        return self._space() if char == " " else self._visible(char, get_cwidth(char))

    def _space(self) -> str:
        self._word = ""
        if self._column >= self._limit:
            self._column = 0
            return "\n"
        self._column += 1
        return " "

    def _visible(self, char: str, columns: int) -> str:
        before = ""
        if self._column + columns > self._limit:
            before = self._next_line()
        self._column += columns
        # A line may end after any wide character: those languages have no spaces.
        self._word = "" if columns == _WIDE else self._word + char
        return before + char

    def _next_line(self) -> str:
        """End the line before the word that is being written, or in it when it fills the line alone."""
        back = get_cwidth(self._word)
        if not 0 < back < self._column:
            self._column, self._word = 0, ""
            return "\n"
        self._column = back
        return f"\x1b[{back}D\x1b[K\n{self._word}"
