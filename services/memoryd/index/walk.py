"""From a session's log to what is indexed of it: the texts, each with the label in force when it was written.

Law (tested): walking a log in any number of pieces gives the rows and the state of walking it whole.

Source: M5a section 6, "What is indexed" and "Labels"; contract, "Session log" and "Labels".
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from memoryd.index.hits import Row
from proto.labels import PRIVATE, DataClass, Label, join

# Lists and maps inside each other in one line. Decoders give up at a depth that depends on their caller's, and a log
# must be read alike by whoever reads it.
NESTING_LIMIT: Final = 128
# `fromisoformat` takes weeks, times without colons and the hour 24 too, others in each version of Python.
_HOUR_MINUTE: Final = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME: Final = re.compile(
    rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_HOUR_MINUTE}(?::[0-5][0-9](?:\.[0-9]{{1,9}})?)?(?:Z|[+-]{_HOUR_MINUTE})"
)


class WalkState(msgspec.Struct, frozen=True):
    """How far a log was read: its records, and the session's label after them."""

    records: int = 0
    label: Label = PRIVATE


class LogProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a log was read: whole lines, their bytes, a digest of the last of these, and the walk's state."""

    bytes_read: int = 0
    tail: bytes = b""
    state: WalkState = WalkState()


class DamagedRecord(Exception):
    """A complete line that is no record of a session log. Nothing from it on can be labelled, so nothing is indexed."""


class _UserRecord(msgspec.Struct, frozen=True, tag_field="kind", tag="user"):
    time: str
    text: str
    author: str | None = None
    class_: str | None = msgspec.field(name="class", default=None)
    untrusted: bool = False


class _ToolCall(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any]


class _AssistantRecord(msgspec.Struct, frozen=True, tag_field="kind", tag="assistant"):
    time: str
    content: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _ToolResultRecord(msgspec.Struct, frozen=True, tag_field="kind", tag="tool_result"):
    time: str
    class_: str = msgspec.field(name="class")
    untrusted: bool


_Record = _UserRecord | _AssistantRecord | _ToolResultRecord
_decoder: Final = msgspec.json.Decoder(_Record)


def walk(session: str, line: bytes, state: WalkState) -> tuple[list[Row], WalkState]:
    """The rows of one complete line of a log, and the state after it.

    Raises:
        DamagedRecord: the line is not a record.

    """
    try:
        _check_nesting(line)
        record = _decoder.decode(line)
        _check_time(record.time)
        label = join(state.label, _own_label(record))
    except (ValueError, msgspec.DecodeError) as error:
        raise DamagedRecord(str(error)) from error
    rows = [
        Row(
            kind="record",
            session=session,
            record=state.records,
            time=record.time,
            role="user" if isinstance(record, _UserRecord) else "assistant" if said else "call",
            label=label,
            text=text,
            author=record.author if isinstance(record, _UserRecord) else None,
        )
        for said, text in _texts(record)
        if text.strip()
    ]
    return rows, WalkState(records=state.records + 1, label=label)


def _texts(record: _Record) -> Iterator[tuple[bool, str]]:
    """What is indexed of a record: whether it was said (or is a call), and the text. Tool results are not."""
    match record:
        case _UserRecord():
            yield True, record.text
        case _AssistantRecord():
            if record.content is not None:
                yield True, record.content
            for call in record.tool_calls or ():
                yield False, _call_text(call)
        case _ToolResultRecord():
            return


def _call_text(call: _ToolCall) -> str:
    """A tool call as its name and arguments; a `call_tool` as the tool inside it."""
    name, arguments = call.name, call.arguments
    if name == "call_tool":
        inner, inner_arguments = arguments.get("tool"), arguments.get("arguments")
        if isinstance(inner, str) and isinstance(inner_arguments, dict):
            name, arguments = inner, inner_arguments
    return f"{name} {json.dumps(arguments, ensure_ascii=False, separators=(',', ':'))}"


def _own_label(record: _Record) -> Label:
    """What a record adds to its session's label. A user record without a label adds nothing."""
    if isinstance(record, _AssistantRecord):
        return PRIVATE
    class_ = DataClass.PRIVATE if record.class_ is None else DataClass(record.class_)
    return Label(class_=class_, untrusted=record.untrusted)


def _check_nesting(line: bytes) -> None:
    """Raise ValueError for a line that nests too deep."""
    if line.count(b"[") + line.count(b"{") <= NESTING_LIMIT:
        return
    # Every other part between quotes is outside strings, once escaped quotes are gone.
    outside = b"".join(line.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    depth = 0
    for mark in outside:
        if mark in b"[{":
            depth += 1
            if depth > NESTING_LIMIT:
                raise ValueError("nested too deep")
        elif mark in b"]}":
            depth -= 1


def _check_time(time: str) -> None:
    """Raise ValueError for what is no RFC 3339 time with an offset, or cannot be told in UTC."""
    if _TIME.fullmatch(time) is None:
        raise ValueError("no time with an offset")
    try:
        datetime.fromisoformat(time).astimezone(UTC)
    except OverflowError as error:
        raise ValueError("a time outside of all years") from error
