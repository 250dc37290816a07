"""How a text that somebody else wrote is shown on a terminal or in a log line.

Nothing in it can move the cursor, change a colour, reorder what stands beside it, hide, or begin a line of its own.
"""

import unicodedata
from typing import Final

# Cc control, Cf format (bidirectional, joiners, tags), Zl and Zp separators, Co private use, Cs surrogates.
_SHOWN_AS_CODE: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Co", "Cs"})
# Invisible without being in one of these categories (M5a section 5, rule 2), and variation selectors.
_INVISIBLE: Final = frozenset(
    {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2065, 0x2800, 0x3164, 0xFFA0}
    | set(range(0xFFF0, 0xFFF9))
)
_SHORT: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}


def escape(text: str) -> str:
    r"""One line of visible characters: `\n`, `\t`, `\r`, `\\`, and `\u{200b}` for what cannot be seen."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text  # nearly every one
    return "".join(map(_escape_char, text))


def escape_lines(text: str) -> str:
    """As `escape`, but line feeds and tabs stay, and a backslash is left alone: for a text shown as a block."""
    return "".join(c if c in "\n\t\\" else _escape_char(c) for c in text)


def clip(text: str, limit_chars: int) -> str:
    """The escaped text, cut to a length with `…` at the cut."""
    shown = escape(text)
    return shown if len(shown) <= limit_chars else shown[: limit_chars - 1] + "…"


def _escape_char(char: str) -> str:
    if " " <= char <= "~" and char != "\\":
        return char
    if short := _SHORT.get(char):
        return short
    code = ord(char)
    hidden = code in _INVISIBLE or 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF
    if hidden or unicodedata.category(char) in _SHOWN_AS_CODE:
        return f"\\u{{{code:x}}}"
    return char
