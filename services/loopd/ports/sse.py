"""Server-sent events, sans-IO: bytes in, the data of each event out (WHATWG HTML, section 9.2.6).

Law (tested): any cut of a stream gives the same events.
"""

from typing import Final

MOST_LINE_BYTES: Final = 4 << 20


class EventStream:
    """Reads the `data` of events; names, ids and comments mean nothing here."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._after_cr = False
        self._begun = False

    def feed(self, piece: bytes) -> list[str]:
        """The events that are complete after one more piece of the stream.

        Raises:
            ValueError: a line is longer than 4 MiB.

        """
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        self._after_cr = piece.endswith(b"\r") or (self._after_cr and not piece)
        lines = (bytes(self._rest) + piece).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = bytearray(lines.pop())
        if len(self._rest) > MOST_LINE_BYTES:
            raise ValueError("a line of the model's stream is too long")
        return [event for line in lines if (event := self._line(line)) is not None]

    def close(self) -> list[str]:
        """The event that the end of the stream completes: some servers leave out the last blank line."""
        return [] if (event := self._dispatch()) is None else [event]

    def _line(self, line: bytes) -> str | None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        return None

    def _dispatch(self) -> str | None:
        if not self._data:
            return None
        event = b"\n".join(self._data).decode(errors="replace")
        self._data.clear()
        return event
