"""Server-sent events out of bytes in any pieces (WHATWG HTML, "Server-sent events"), for reading, never for relaying.

Laws (tested): the events of a stream do not depend on where it is cut; memory is bounded by `LONGEST_EVENT_BYTES`.
"""

from collections.abc import Iterator
from typing import Final

LONGEST_EVENT_BYTES: Final = 16 << 20
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class Events:
    """The data of each event, in order. An event longer than the bound is left out whole."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._line_bytes = 0
        self._after_cr = False
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._too_long = False
        self._first = True

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The data of the events that end in this piece."""
        if not piece:
            return
        if self._after_cr:
            # The line ended at the CR; a line feed after it belongs to that end.
            piece = piece.removeprefix(b"\n")
        self._after_cr = piece.endswith(b"\r")
        *whole, rest = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            self._extend(line)
            yield from self._take()
        self._extend(rest)

    def end(self) -> Iterator[bytes]:
        """The data of an event whose blank line never came."""
        yield from self._take()
        yield from self._take()

    def _extend(self, part: bytes) -> None:
        self._line_bytes += len(part)
        if self._line_bytes > LONGEST_EVENT_BYTES:
            # What is left of the line is a comment; it must not be empty, or the event would end here.
            self._too_long = True
            self._line = [b":"]
        elif part:
            self._line.append(part)

    def _take(self) -> Iterator[bytes]:
        """End the line; the event's data when that ends the event."""
        line = b"".join(self._line)
        self._line, self._line_bytes = [], 0
        if self._first:
            self._first = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if line:
            self._add(line)
            return
        if self._data and not self._too_long:
            yield b"\n".join(self._data)
        self._data, self._data_bytes, self._too_long = [], 0, False

    def _add(self, line: bytes) -> None:
        """Take a field; only `data` is read."""
        field, _, value = line.partition(b":")
        if field != b"data":
            return
        self._data_bytes += len(value)
        self._too_long = self._too_long or self._data_bytes > LONGEST_EVENT_BYTES
        if self._too_long:
            self._data.clear()
        else:
            self._data.append(value.removeprefix(b" "))
