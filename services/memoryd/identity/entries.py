"""memory.md and user.md as lists of entries.

The text of a file is its entries joined by a line that is `§`, without a final newline; sizes are code points of that
text. Law (tested): `parse(render(entries)) == entries`, for entries that a session may write, and for all that `parse`
gives, whatever a hand put into the file.

Source: M5a section 3, "Entries"; contract, "The files of M5a".
"""

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from memoryd.files import Unreadable

MARK: Final = "§"
_BETWEEN: Final = f"\n{MARK}\n"
# What ends in LF is one line end, also where two programs in turn put a CR before it.
_LINE_END: Final = re.compile(r"\r+\n")
# Unicode's White_Space, and not Python's notion of it, which has the separators U+001C to U+001F too.
_WHITE_SPACE: Final = "".join(map(chr, (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)))) + (
    "\u2028\u2029\u202f\u205f\u3000"
)


class FileKind(NamedTuple):
    """A file that sessions write: what a call names it, its name in memory/, and its limit in code points."""

    key: Literal["memory", "user"]
    name: Literal["memory.md", "user.md"]
    limit_chars: int


_KINDS: Final = (FileKind("memory", "memory.md", 2200), FileKind("user", "user.md", 1375))
FILES: Final[dict[str, FileKind]] = {kind.key: kind for kind in _KINDS}
"""The two files that sessions write, by what a call names them."""
BY_NAME: Final[dict[str, FileKind]] = {kind.name: kind for kind in _KINDS}
"""The same by their names in memory/."""
SOUL_NAME: Final = "soul.md"
"""The file that only the owner writes."""
SOUL_LIMIT_CHARS: Final = 4000
NOTES_KEY: Final = "notes"
NOTES_NAME: Final = "notes.md"


def trim(text: str) -> str:
    """A text without Unicode white space at its ends."""
    return text.strip(_WHITE_SPACE)


def is_separator(line: str) -> bool:
    """Whether a line parts two entries: `§` once spaces and tabs are stripped."""
    return line.strip(" \t") == MARK


def decode(data: bytes) -> str:
    """The text of a file that an editor may have written: UTF-8, CRLF read as LF.

    Raises:
        Unreadable: it is not UTF-8.

    """
    try:
        return _LINE_END.sub("\n", data.decode())
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is not UTF-8 (byte {error.start + 1:,})") from None


def parse(text: str) -> list[str]:
    """The entries of a file's text, trimmed; empty ones are none."""
    entries: list[str] = []
    lines: list[str] = []
    for line in text.split("\n"):
        if is_separator(line):
            entries.append(_entry(lines))
            lines = []
        else:
            lines.append(line)
    entries.append(_entry(lines))
    return [entry for entry in entries if entry]


def _entry(lines: Sequence[str]) -> str:
    """The entry that lines between two separators make: trimmed, and without lines at its ends that trimming makes
    separators. Such a line, `§` beside a no-break space, would be one when the file is written again.
    """
    first, end = 0, len(lines)
    while first < end:
        alone = end - first == 1
        if _is_nothing(trim(lines[first]) if alone else lines[first].lstrip(_WHITE_SPACE)):
            first += 1
        elif not alone and _is_nothing(lines[end - 1].rstrip(_WHITE_SPACE)):
            end -= 1
        else:
            break
    return trim("\n".join(lines[first:end]))


def _is_nothing(line: str) -> bool:
    return not line or is_separator(line)


def render(entries: Sequence[str]) -> str:
    """The text of a file."""
    return _BETWEEN.join(entries)


def size(entries: Sequence[str]) -> int:
    """The code points of a file's text."""
    return sum(map(len, entries)) + len(_BETWEEN) * max(0, len(entries) - 1)


def of(chars: int, limit_chars: int) -> str:
    """`1,474 of 2,200 characters`."""
    return f"{chars:,} of {limit_chars:,} characters"
