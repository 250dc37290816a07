"""A key that an upstream sends back is masked on its way to the client.

A mask is as long as what it masks, so that lengths stay; a stream that does not hold the key passes byte for byte, and
no byte waits unless it may be the key's beginning. A key with signs that JSON or a URL may write otherwise is known in
those forms, too.
"""

import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote

_SHORTEST_SECRET_BYTES: Final = 8
"""A shorter value (`none`, `local`) is no secret, and would be found in any text."""
_MOST_SOUGHT: Final = 64
"""Sets of secrets whose forms are remembered: a call needs those of its own four times."""


class Redactor:
    """Masks secrets in one stream."""

    def __init__(self, *secrets: bytes) -> None:
        self._secrets, self._pattern = _sought(secrets)
        self._held = b""

    @property
    def active(self) -> bool:
        """Whether there is a secret to mask."""
        return bool(self._secrets)

    def whole(self, text: bytes) -> bytes:
        """A text that is not part of the stream, masked."""
        return text if self._pattern is None else self._pattern.sub(_mask, text)

    def text(self, text: str) -> str:
        """As `whole`, of a text."""
        return text if self._pattern is None else self.whole(text.encode("utf-8", "replace")).decode("utf-8", "replace")

    def feed(self, piece: bytes) -> bytes:
        """What may go on now."""
        if self._pattern is None:
            return piece
        text, at, out = self._held + piece, 0, list[bytes]()
        while True:
            end = len(text) - max(_beginning(secret, text, at) for secret in self._secrets)
            found = self._pattern.search(text, at)
            # A secret that may go on beyond this piece is a longer one, and waits.
            if found is None or found.start() >= end:
                break
            out += [text[at : found.start()], _mask(found)]
            at = found.end()
        self._held = text[end:]
        return b"".join([*out, text[at:end]])

    def end(self) -> bytes:
        """What was held back."""
        held, self._held = self._held, b""
        return self.whole(held)


@lru_cache(_MOST_SOUGHT)
def _sought(secrets: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], re.Pattern[bytes] | None]:
    """All forms of some secrets, the longest first: one may begin with another; and what finds any of them."""
    known = {form for one in secrets if len(one) >= _SHORTEST_SECRET_BYTES for form in _forms(one)}
    found = tuple(sorted(known, key=len, reverse=True))
    return found, re.compile(b"|".join(map(re.escape, found))) if found else None


def _forms(secret: bytes) -> set[bytes]:
    """A secret, and how it stands in JSON with escaped slashes and in a URL."""
    return {secret, secret.replace(b"/", b"\\/"), quote(secret, safe="").encode("ascii")}


def _mask(found: re.Match[bytes]) -> bytes:
    return b"*" * len(found[0])


def _beginning(secret: bytes, text: bytes, at: int) -> int:
    """How many bytes at the end of a text, behind a place, a secret may begin with and not end in."""
    start = max(at, len(text) - len(secret) + 1)
    while (start := text.find(secret[:1], start)) >= 0:
        if secret.startswith(text[start:]):
            return len(text) - start
        start += 1
    return 0
