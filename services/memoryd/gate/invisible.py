"""Rule 2: characters that cannot be seen, or that change the direction of those beside them.

Some languages and emoji need a few of them. Where the owner allows it (`[check] allow_joiners`), one of those passes
between neighbours that need it, and two never pass side by side, so that nothing longer can be hidden in them.

Source: M5a section 5, "The check", rule 2; Unicode Standard Annexes 31 (joiners in scripts) and 51 (emoji sequences).
"""

import re
import unicodedata
from typing import Final

from memoryd.gate.tables import DEFAULT_IGNORABLE, EXTENDED_PICTOGRAPHIC, Ranges

# Invisible without being in the property or in category Cf.
_INVISIBLE_TOO: Final[Ranges] = (
    (0x034F, 0x034F),
    (0x115F, 0x115F),
    (0x2028, 0x2029),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
)
# Scripts whose letters take another shape beside a joiner: Arabic to Mandaic, the Indic ones, Tibetan, Myanmar, Khmer,
# Mongolian, and the Arabic presentation forms.
_JOINING: Final[Ranges] = (
    (0x0600, 0x08FF),
    (0x0900, 0x0DFF),
    (0x0F00, 0x0FFF),
    (0x1000, 0x109F),
    (0x1780, 0x18AF),
    (0xFB50, 0xFDFF),
    (0xFE70, 0xFEFC),
)
_IDEOGRAPHS: Final[Ranges] = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF))
_MONGOLIAN: Final[Ranges] = ((0x1820, 0x18AA),)
_SKIN_TONES: Final[Ranges] = ((0x1F3FB, 0x1F3FF),)
_ZWNJ: Final = "\u200c"
_ZWJ: Final = "\u200d"
_EMOJI_SELECTORS: Final = ("\ufe0e", "\ufe0f")
_KEYCAP: Final = "\u20e3"


def _class_of(*tables: Ranges) -> str:
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for table in tables for first, last in table)


INVISIBLE: Final = re.compile(f"[{_class_of(DEFAULT_IGNORABLE, _INVISIBLE_TOO)}]")
"""One character of rule 2."""


def is_needed(text: str, at: int) -> bool:
    """Whether the character there is a joiner or a selector that its neighbours need."""
    char = text[at]
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if not before:
        return False
    if char in {_ZWNJ, _ZWJ} and _is_joining(before) and _is_joining(after):
        return True
    if char == _ZWJ:
        return _ends_emoji(text[max(0, at - 2) : at]) and _in(after, EXTENDED_PICTOGRAPHIC)
    if char in _EMOJI_SELECTORS:
        return _in(before, EXTENDED_PICTOGRAPHIC) or (before in "0123456789#*" and after == _KEYCAP)
    if "\ufe00" <= char <= "\ufe02" or "\U000e0100" <= char <= "\U000e01ef":
        return _in(before, _IDEOGRAPHS)
    if char in "\u180b\u180c\u180d\u180f":
        return _in(before, _MONGOLIAN)
    return False


def _is_joining(char: str) -> bool:
    """Whether this is a letter or a mark of a script with joiners, and not invisible itself."""
    return _in(char, _JOINING) and unicodedata.category(char)[0] in "LM" and INVISIBLE.match(char) is None


def _ends_emoji(text: str) -> bool:
    """Whether a text, its last two characters that is, ends in an emoji, perhaps with a selector or a skin tone."""
    if text.endswith(_EMOJI_SELECTORS):
        text = text[:-1]
    return _in(text[-1:], EXTENDED_PICTOGRAPHIC) or _in(text[-1:], _SKIN_TONES)


def _in(char: str, table: Ranges) -> bool:
    return bool(char) and any(first <= ord(char) <= last for first, last in table)
