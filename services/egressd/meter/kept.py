"""A JSON text that comes in pieces, kept until it is whole, bounded.

A short text is kept as it is. Of a long one (an image in base64, a file that a tool wrote) only what can hold a count
or a name is kept: its long strings are emptied on the way, so that the usage behind them is still read.
"""

import re
from typing import Final

WHOLE_BYTES: Final = 1 << 20
"""A longer text is kept without its long strings."""
LONGEST_BYTES: Final = 16 << 20
"""A text that is longer even so is not kept."""
LONGEST_STRING_BYTES: Final = 4 << 10
_STRING_REST: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*', re.DOTALL)
"""The rest of a string up to its closing quote, or to the end. No group is possessive: Python before 3.11.5 keeps what
a repetition of one has read that failed."""
_STRING: Final = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*)"', re.DOTALL)
_WITHOUT_OPEN_STRING: Final = re.compile(rb'[^"]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*"[^"]*+)*', re.DOTALL)


class Kept:
    """The text that is coming."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._emptied: Emptied | None = None
        self._too_long = False

    def __bool__(self) -> bool:
        """Whether something of a text has come."""
        return bool(self._text) or self._too_long

    def add(self, piece: bytes) -> None:
        """Take the next piece."""
        if self._too_long:
            return
        self._text += piece if self._emptied is None else self._emptied.feed(piece)
        if self._emptied is None and len(self._text) > WHOLE_BYTES:
            self._emptied = Emptied()
            self._text = bytearray(self._emptied.feed(bytes(self._text)))
        if len(self._text) > LONGEST_BYTES:
            self._text, self._too_long = bytearray(), True

    def take(self) -> bytes | None:
        """The text, and begin the next one; None for one that was too long."""
        text = None if self._too_long else bytes(self._text)
        self._text, self._emptied, self._too_long = bytearray(), None, False
        return text


class Emptied:
    """A JSON text in which strings longer than `LONGEST_STRING_BYTES` are empty; cuts do not matter.

    A string comes out when it has ended, so that no half of an escape or of a character ever does.
    """

    def __init__(self) -> None:
        self._in_string = False
        self._escaped = False
        self._string = bytearray()
        self._string_bytes = 0

    def feed(self, piece: bytes) -> bytes:
        """What this piece adds."""
        out: list[bytes] = []
        at = self._inside(piece, 0, out) if self._in_string else 0
        if not self._in_string:
            end = _end(_WITHOUT_OPEN_STRING, piece, at)
            out.append(_STRING.sub(_emptied, piece[at:end]))
            if end < len(piece):
                out.append(b'"')
                self._in_string = True
                self._inside(piece, end + 1, out)
        return b"".join(out)

    def _inside(self, piece: bytes, start: int, out: list[bytes]) -> int:
        """Go on in the string that is open; where it ends, or the end of the piece."""
        end, self._escaped = string_end(piece, start, self._escaped)
        self._string_bytes += end - start
        if self._string_bytes <= LONGEST_STRING_BYTES:
            self._string += piece[start:end]
        else:
            self._string.clear()
        if end == len(piece):
            return end
        out += [bytes(self._string), b'"']
        self._in_string, self._string, self._string_bytes = False, bytearray(), 0
        return end + 1


def string_end(piece: bytes, at: int, escaped: bool) -> tuple[int, bool]:
    """The place of the closing quote of a string that is open at a place, or the end of the piece.

    What comes before may have left the next byte escaped; so may the end of this piece, which is the second answer.
    """
    if escaped and at < len(piece):
        at += 1
    elif escaped:
        return at, True
    end = _end(_STRING_REST, piece, at)
    if end < len(piece) and piece[end : end + 1] != b'"':
        return len(piece), True
    return end, False


def _end(pattern: re.Pattern[bytes], piece: bytes, at: int) -> int:
    """Where the match of a pattern that also matches nothing ends."""
    found = pattern.match(piece, at)
    return at if found is None else found.end()


def _emptied(string: re.Match[bytes]) -> bytes:
    return string[0] if len(string[1]) <= LONGEST_STRING_BYTES else b'""'
