"""Decompressing an answer in pieces, bounded, for reading it: what is relayed stays as it came."""

import zlib
from typing import Final, Protocol

_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
_MOST_MEMBERS: Final = 1_000
"""What follows a member is copied; members without number would be copied without end."""


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

    def end(self) -> None:
        """The body is over.

        Raises:
            ValueError: it breaks off.

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

    def end(self) -> None:
        """Any bytes are a whole body."""


class _Zlib:
    """Members of gzip one after another (RFC 1952 section 2.2), or one stream of zlib."""

    def __init__(self, limit_bytes: int) -> None:
        self._left_bytes = limit_bytes
        self._members = 0
        self._decoder: zlib._Decompress | None = None

    def feed(self, piece: bytes) -> bytes:
        out: list[bytes] = []
        while piece := self._without_padding(piece):
            if self._decoder is None:
                self._decoder = self._next()
            out.append(self._inflated(self._decoder, piece))
            piece = self._decoder.unused_data
            if self._decoder.eof:
                self._decoder = None
        return b"".join(out)

    def end(self) -> None:
        if self._decoder is not None:
            raise ValueError("the compressed answer breaks off")

    def _without_padding(self, piece: bytes) -> bytes:
        """Some writers fill up with zeros behind a member."""
        return piece.lstrip(b"\x00") if self._members and self._decoder is None else piece

    def _next(self) -> "zlib._Decompress":
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise ValueError(f"the answer is compressed in more than {_MOST_MEMBERS} pieces")
        return zlib.decompressobj(_GZIP_OR_ZLIB)

    def _inflated(self, decoder: "zlib._Decompress", piece: bytes) -> bytes:
        try:
            # One byte more than may be: whether there is more is asked before it is made.
            plain = decoder.decompress(piece, self._left_bytes + 1)
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
