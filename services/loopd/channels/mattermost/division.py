"""An answer cut into posts, pure: none longer than the server takes, fences closed and opened again, no character cut.

Laws (tested): the bodies, joined, are the text; every post has at most `limit` code points, which is how the server
counts; no post ends inside a fence; the parts of a text that grows stay as they are, but for the last one.
"""

import re
import unicodedata
from typing import Final, NamedTuple

_FENCE: Final = re.compile(r" {0,3}(?P<marker>`{3,}|~{3,})(?P<info>.*)\Z", re.DOTALL)
_LONGEST_FENCE: Final = 80
_LEAST_PIECE: Final = 0.6
"""A cut at a nicer place may leave so much of a post's room unused: it is searched in the rest of it."""
_ZERO_WIDTH_JOINER: Final = "\u200d"


class Fence(NamedTuple):
    """An open block of code: the marker that closes it, and the line that opens it again."""

    marker: str
    line: str


class Part(NamedTuple):
    """One post: what stands before and after the text's own words."""

    head: str
    body: str
    tail: str

    @property
    def text(self) -> str:
        """The post's text."""
        return self.head + self.body + self.tail


def divide(text: str, limit: int) -> list[Part]:
    """The parts of a text, at least one."""
    parts: list[Part] = []
    fence: Fence | None = None
    while True:
        head = f"{fence.line}\n" if fence else ""
        if len(head) + len(text) <= limit:
            return [*parts, Part(head, text, "")]
        part, fence = _part(head, fence, text, limit)
        parts.append(part)
        text = text[len(part.body) :]


def _part(head: str, fence: Fence | None, text: str, limit: int) -> tuple[Part, Fence | None]:
    """The first part of a text that is too long, and the fence that is open after it."""
    room = limit - len(head)
    while True:
        body = text[: _cut(text, room)]
        after = _fence_after(fence, body)
        tail = _tail(body, after)
        if len(head) + len(body) + len(tail) <= limit:
            return Part(head, body, tail), after
        # What closes the fence needs its room too.
        room = max(1, len(body) - (len(head) + len(body) + len(tail) - limit))


def _tail(body: str, fence: Fence | None) -> str:
    if fence is None:
        return ""
    return fence.marker if body.endswith("\n") else f"\n{fence.marker}"


def _cut(text: str, room: int) -> int:
    """Where to cut: after a blank line, a line, a space, or between any two whole characters; at least one character.

    `text` is longer than `room`.
    """
    least = max(1, int(room * _LEAST_PIECE))
    for mark in ("\n\n", "\n", " "):
        at = text.rfind(mark, least, room)
        if at >= 0 and at + len(mark) <= room and _is_between(text, at + len(mark)):
            return at + len(mark)
    for at in range(room, 0, -1):
        if _is_between(text, at):
            return at
    # One character of more code points than a post may have: it has to be cut.
    return max(1, room)


def _is_between(text: str, at: int) -> bool:
    """Whether a text can be cut before its code point `at` without cutting what is seen as one character."""
    before, after = text[at - 1], text[at]
    if before == "\r" and after == "\n":
        return False
    if _ZERO_WIDTH_JOINER in {before, after}:
        return False
    if unicodedata.category(after) in {"Mn", "Me", "Mc"} or 0x1F3FB <= ord(after) <= 0x1F3FF:
        return False
    if 0xE0020 <= ord(after) <= 0xE007F:
        # The letters of a flag's tag.
        return False
    if _is_regional(before) and _is_regional(after):
        return _regionals_before(text, at) % 2 == 0
    # A Korean syllable in pieces: a consonant goes with what follows, a vowel or a last consonant with what precedes.
    if 0x1160 <= ord(after) <= 0x11FF:
        return not (0x1100 <= ord(before) <= 0x11FF or 0xAC00 <= ord(before) <= 0xD7A3)
    return not (0x1100 <= ord(before) <= 0x115F and 0x1100 <= ord(after) <= 0x115F)


def _is_regional(char: str) -> bool:
    return 0x1F1E6 <= ord(char) <= 0x1F1FF


def _regionals_before(text: str, at: int) -> int:
    count = 0
    while at - count > 0 and _is_regional(text[at - count - 1]):
        count += 1
    return count


def _fence_after(fence: Fence | None, body: str) -> Fence | None:
    """The fence that is open after a piece of text, when `fence` was open before it."""
    for line in body.split("\n"):
        found = _FENCE.match(line.rstrip("\r"))
        if found is None:
            continue
        marker, info = found["marker"], found["info"]
        if fence is None:
            if "`" not in info or marker[0] == "~":
                marker = marker if len(marker) <= _LONGEST_FENCE else marker[:_LONGEST_FENCE]
                again = f"{marker}{info}".rstrip()
                fence = Fence(marker, again if len(again) <= _LONGEST_FENCE else marker)
        elif marker.startswith(fence.marker[0] * len(fence.marker)) and not info.strip():
            fence = None
    return fence
