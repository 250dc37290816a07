"""What the owner is shown of sessions: a line for each, and the records of one as they are stored."""

from typing import Any, Final, NamedTuple

import msgspec

from loopd.session.records import User
from loopd.session.store import Store
from proto.escape import clip
from proto.faults import Fault

FIRST_CHARS: Final = 120
_MOST_REPLY_BYTES: Final = 900 * 1024
_CLIPPED_CHARS: Final = 10_000
_encoder: Final = msgspec.msgpack.Encoder()


class Line(NamedTuple):
    """A session's own part of its summary; `damaged` when its log cannot be read whole."""

    began: str
    updated: str
    records: int
    first: str
    damaged: bool


def line(store: Store, session: str) -> Line:
    """The summary of a session that is there."""
    try:
        loaded = store.load_only(session)
    except Fault:
        return Line("", "", _count(store, session), "", damaged=True)
    first = next((record.text for record in loaded.records if isinstance(record, User)), "")
    began = loaded.baseline.time
    updated = loaded.records[-1].time if loaded.records else began
    return Line(began, updated, len(loaded.records), clip(first, FIRST_CHARS), damaged=False)


def records(store: Store, session: str, first: int) -> tuple[list[dict[str, Any]], int | None]:
    """Records from a number on, as many as fit a frame, and the number to ask from next, or None at the end.

    A line that is damaged is shown as `{"damaged": true}`, so that the owner sees where.

    Raises:
        Fault: `session-unknown`; `session-damaged` when the log cannot be read at all.

    """
    if not store.exists(session):
        raise Fault("session-unknown", f"there is no session {session}")
    found: list[dict[str, Any]] = []
    room = _MOST_REPLY_BYTES
    for number, raw in enumerate(store.lines(session)):
        if number < first:
            continue
        shown: dict[str, Any] = {"damaged": True} if raw is None else raw
        size = _size(shown)
        if size > _MOST_REPLY_BYTES:
            # Only a log that was made by hand holds such a record.
            shown = {"kind": str(shown.get("kind")), "too_large": clip(str(shown), _CLIPPED_CHARS)}
            size = _size(shown)
        if size > room:
            return found, number
        room -= size
        found.append(shown)
    return found, None


def _count(store: Store, session: str) -> int:
    try:
        return sum(1 for _ in store.lines(session))
    except Fault:
        return 0


def _size(record: dict[str, Any]) -> int:
    try:
        return len(_encoder.encode(record))
    except (OverflowError, RecursionError, ValueError):
        return _MOST_REPLY_BYTES + 1
