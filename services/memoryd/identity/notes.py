"""notes.md as a list of notes: one header line each, which says how it got there, and its text.

A line that begins with `§` is a header, by its place and nothing else: a line of a text that begins with `§` or a
backslash is stored with one backslash before it, which reading takes away. So no text can pass for a header.
Law (tested): `parse(render(notes)) == notes`.

Source: M5a section 3, "notes.md"; contract, "The files of M5a".
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec

from memoryd.identity.entries import MARK, trim
from proto.ids import is_session_id
from proto.labels import PRIVATE, DataClass, Label

How = Literal["noted", "moved", "dropped"]
_TIME_FORM: Final = "%Y-%m-%dT%H:%MZ"
_TIME: Final = r"(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}Z)"
_NOTED: Final = re.compile(
    rf"{MARK} noted {_TIME} in session (?P<session>[a-z0-9-]+) · (?P<class>[a-z]+)(?P<untrusted> · untrusted)?[ \t]*"
)
_LEFT: Final = re.compile(
    rf"{MARK} (?P<how>moved|dropped) {_TIME} from (?P<file>(?:memory|user)\.md)"
    r" in session (?P<session>[a-z0-9-]+)[ \t]*"
)


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """How a note got there: `time` to the minute in UTC, the session, the file that it left (None for a noted one)."""

    how: How
    time: str
    session: str
    file: str | None = None
    label: Label = PRIVATE


class Note(msgspec.Struct, frozen=True):
    """A header and a text, trimmed and not empty. The header is None where a hand wrote none that can be read."""

    header: Header | None
    text: str


def minute(time: datetime) -> str:
    """The time as a header has it."""
    return time.strftime(_TIME_FORM)


def render(notes: Iterable[Note]) -> str:
    """The text of notes, as it is appended to notes.md."""
    return "".join(f"{_header_line(note.header)}\n{_escaped(note.text)}\n" for note in notes if note.header is not None)


def parse(text: str) -> list[Note]:
    """The notes of a file's text, in order; what stands before the first header has none."""
    notes: list[Note] = []
    header: Header | None = None
    lines: list[str] = []

    def finish() -> None:
        if body := trim("\n".join(lines)):
            notes.append(Note(header, body))

    for line in text.split("\n"):
        if line.startswith(MARK):
            finish()
            header, lines = _parse_header(line), []
        else:
            lines.append(line.removeprefix("\\"))
    finish()
    return notes


def changed(before: Sequence[Note], after: Sequence[Note]) -> tuple[list[Note], list[Note]]:
    """The notes that are only in the one, and those that are only in the other, each in its order."""
    return _only_in(before, after), _only_in(after, before)


def _only_in(these: Sequence[Note], others: Sequence[Note]) -> list[Note]:
    left = Counter(others)
    found = []
    for note in these:
        if left[note] > 0:
            left[note] -= 1
        else:
            found.append(note)
    return found


def _header_line(header: Header) -> str:
    if header.how == "noted":
        return f"{MARK} noted {header.time} in session {header.session} · {header.label}"
    return f"{MARK} {header.how} {header.time} from {header.file} in session {header.session}"


def _parse_header(line: str) -> Header | None:
    found = _NOTED.fullmatch(line) or _LEFT.fullmatch(line)
    if found is None or not is_session_id(found["session"]) or not _is_time(found["time"]):
        return None
    parts = found.groupdict()
    if "class" not in parts:
        how: How = "moved" if parts["how"] == "moved" else "dropped"
        return Header(how=how, time=parts["time"], session=parts["session"], file=parts["file"])
    try:
        label = Label(class_=DataClass(parts["class"]), untrusted=parts["untrusted"] is not None)
    except ValueError:
        return None
    return Header(how="noted", time=parts["time"], session=parts["session"], label=label)


def _is_time(text: str) -> bool:
    try:
        datetime.strptime(text, _TIME_FORM)  # noqa: DTZ007  (only whether it is one)
    except ValueError:
        return False
    return True


def _escaped(text: str) -> str:
    return "\n".join(f"\\{line}" if line.startswith((MARK, "\\")) else line for line in text.split("\n"))
