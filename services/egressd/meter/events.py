"""Server-sent events out of bytes in any pieces (WHATWG HTML, "Server-sent events"), for reading, never for relaying.

Laws (tested): the events of a stream do not depend on where it is cut; memory is bounded by `kept.LONGEST_BYTES`.
"""

from collections.abc import Iterator
from typing import Final

from egressd.meter import kept
from egressd.meter.kept import Kept

_DATA: Final = b"data:"


class Events:
    """The data of each event, in order. An event longer than the bound is left out whole."""

    def __init__(self) -> None:
        self._line = Kept()
        self._after_cr = False
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._too_long = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The data of the events that end in this piece."""
        if not piece:
            return
        if self._after_cr:
            # The line ended at the CR; a line feed after it belongs to that end.
            piece = piece.removeprefix(b"\n")
        self._after_cr = piece.endswith(b"\r")
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *whole, rest = piece.split(b"\n")
        for part in whole:
            line = self._ended(part) if self._line or len(part) > kept.WHOLE_BYTES else part
            if line:
                self._add(line)
            elif (data := self._take()) is not None:
                yield data
        if rest:
            self._line.add(rest)

    def end(self) -> Iterator[bytes]:
        """The data of an event whose blank line never came."""
        if line := self._ended(b""):
            self._add(line)
        if (data := self._take()) is not None:
            yield data

    def _ended(self, part: bytes) -> bytes:
        self._line.add(part)
        line = self._line.take()
        if line is None:
            self._too_long = True
            # A line that is not kept is a comment; an empty one would end the event here.
            return b":"
        return line

    def _take(self) -> bytes | None:
        """End the event: its data, if it has any and none was too long."""
        data = b"\n".join(self._data) if self._data and not self._too_long else None
        self._data, self._data_bytes, self._too_long = [], 0, False
        return data

    def _add(self, line: bytes) -> None:
        """Take a field; only `data` is read."""
        if line.startswith(_DATA):
            value = line[len(_DATA) :].removeprefix(b" ")
        elif line == _DATA[:-1]:
            value = b""
        else:
            return
        self._data_bytes += len(value) + 1
        self._too_long = self._too_long or self._data_bytes > kept.LONGEST_BYTES
        if self._too_long:
            self._data.clear()
        else:
            self._data.append(value)
