"""A key that an upstream sends back is masked on its way to the client.

A mask is as long as the key, so that lengths stay; a stream that does not hold the key passes byte for byte, and no
byte waits unless it may be the key's beginning.
"""

from typing import Final

_SHORTEST_SECRET_BYTES: Final = 8
"""A shorter value (`none`, `local`) is no secret, and would be found in any text."""


class Redactor:
    """Masks one secret in one stream."""

    def __init__(self, secret: str | None) -> None:
        found = (secret or "").encode()
        self._secret = found if len(found) >= _SHORTEST_SECRET_BYTES else b""
        self._mask = b"*" * len(self._secret)
        self._held = b""

    @property
    def active(self) -> bool:
        """Whether there is a secret to mask."""
        return bool(self._secret)

    def whole(self, text: bytes) -> bytes:
        """A text that is not part of the stream, masked."""
        return text.replace(self._secret, self._mask) if self._secret else text

    def feed(self, piece: bytes) -> bytes:
        """What may go on now."""
        if not self._secret:
            return piece
        text = self.whole(self._held + piece)
        kept = self._beginning(text)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def end(self) -> bytes:
        """What was held back."""
        held, self._held = self._held, b""
        return held

    def _beginning(self, text: bytes) -> int:
        """How many bytes at the end of a text the secret may begin with."""
        for count in range(min(len(self._secret) - 1, len(text)), 0, -1):
            if self._secret.startswith(text[-count:]):
                return count
        return 0
