"""What a person sees of long work: on a terminal one line that counts; elsewhere nothing."""

import sys
import time
from types import TracebackType
from typing import Final, Self

_EVERY_S: Final = 0.1
_UNIT_BYTES: Final = 1 << 20


class Progress:
    """The bytes that were done of a step, on standard error."""

    def __init__(self, what: str, total_bytes: int | None = None) -> None:
        self._what = what
        self._total = "" if total_bytes is None else f" of {total_bytes / _UNIT_BYTES:,.1f}"
        self._done = 0
        self._at = 0.0
        self._on = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._on:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def seen(self, count: int) -> None:
        """So many bytes more are done."""
        self._done += count
        if self._on and time.monotonic() - self._at >= _EVERY_S:
            self._at = time.monotonic()
            sys.stderr.write(f"\r\x1b[K{self._what}: {self._done / _UNIT_BYTES:,.1f}{self._total} MiB")
            sys.stderr.flush()
