"""The time: UTC, whole seconds, RFC 3339 with `Z`. One place, so that a test can set it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

_SECONDS_CHARS: Final = len("2026-09-24T21:02:03")

Clock = Callable[[], datetime]
"""Gives the time now, aware, in UTC."""


def now() -> datetime:
    """The time now in UTC."""
    return datetime.now(UTC)


def stamp(time: datetime) -> str:
    """`2026-09-24T21:02:03Z`."""
    return time.astimezone(UTC).isoformat()[:_SECONDS_CHARS] + "Z"


def parse(text: str) -> datetime:
    """The time of an RFC 3339 text.

    Raises:
        ValueError: it is none, or has no offset.

    """
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("a time without an offset")
    return time.astimezone(UTC)
