"""Decompressing an answer in pieces, bounded, for reading it: what is relayed stays as it came."""

import zlib
from typing import Final, Protocol

_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS


class Overflow(Exception):
    """More came out than may."""


class Inflater(Protocol):
    """Gives the plain bytes of pieces of a body."""

    def feed(self, piece: bytes) -> bytes:
        """The bytes that this piece adds.

        Raises:
            Overflow: the whole is larger than the bound.
            ValueError: the piece is not what the encoding says.

        """
        ...


class _Identity:
    def __init__(self, limit_bytes: int) -> None:
        self._left_bytes = limit_bytes

    def feed(self, piece: bytes) -> bytes:
        self._left_bytes -= len(piece)
        if self._left_bytes < 0:
            raise Overflow
        return piece


class _Zlib:
    def __init__(self, limit_bytes: int) -> None:
        self._left_bytes = limit_bytes
        self._decoder = zlib.decompressobj(_GZIP_OR_ZLIB)

    def feed(self, piece: bytes) -> bytes:
        try:
            # One byte more than may be: whether there is more is asked before it is made.
            plain = self._decoder.decompress(piece, self._left_bytes + 1)
        except zlib.error as error:
            raise ValueError(f"the answer is not compressed as it says: {error}") from None
        self._left_bytes -= len(plain)
        if self._left_bytes < 0:
            raise Overflow
        return plain


def inflater(content_encoding: str, limit_bytes: int) -> Inflater | None:
    """What reads a body of a `Content-Encoding`, giving at most so many bytes; None for an encoding not known here."""
    match content_encoding.strip().lower():
        case "" | "identity":
            return _Identity(limit_bytes)
        case "gzip" | "x-gzip" | "deflate":
            return _Zlib(limit_bytes)
        case _:
            return None
