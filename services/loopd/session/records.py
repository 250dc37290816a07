"""The records of a session's log (contract, "Session log"), pure: Structs, lines, and what a whole log says.

Laws (tested): `from_line(to_line(record)) == record`; a log whose lines follow each other stays so with every record
that a turn appends.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from proto.labels import DataClass, Label


class Call(msgspec.Struct, frozen=True):
    """A tool call of the model, as the log keeps it: the id is the session's own, the arguments are a map."""

    id: str
    name: str
    arguments: dict[str, Any]


class User(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="user", omit_defaults=True):
    """What was said to the agent; `author` null is the owner. A label here joins the session's."""

    time: str
    text: str
    author: str | None
    class_: DataClass | None = msgspec.field(name="class", default=None)
    untrusted: bool | None = None


class Assistant(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="assistant", omit_defaults=True):
    """What the model answered: words, tool calls, or both."""

    time: str
    content: str | None
    tool_calls: list[Call]
    reasoning_content: str | None = None


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="tool_result"):
    """The result of the call whose id is `call`, with its label."""

    time: str
    call: str
    name: str
    content: str
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool

    @property
    def label(self) -> Label:
        """The label of the content."""
        return Label(class_=self.class_, untrusted=self.untrusted)


Record = User | Assistant | ToolResult


def to_line(record: Record) -> dict[str, Any]:
    """The JSON object of a record."""
    line: dict[str, Any] = msgspec.to_builtins(record)
    return line


def from_line(line: dict[str, Any] | None) -> Record:
    """The record of a line; None stands for a line that is no JSON object.

    Raises:
        ValueError: it is no record; the message says why.

    """
    if line is None:
        raise ValueError("not a JSON object")
    record: Record = msgspec.convert(line, Record)
    return record


class Position(NamedTuple):
    """Where a log stands: calls without a result, ids in use, the user's last record, rounds since, an answer."""

    open_calls: tuple[Call, ...]
    used_ids: frozenset[str]
    last_user: int | None
    rounds: int
    answered: bool


def position(records: Sequence[Record]) -> Position:
    """Where a log stands after its records.

    Raises:
        ValueError: a record does not follow the one before; the message says which, numbered from 0.

    """
    open_calls: dict[str, Call] = {}
    used: set[str] = set()
    last_user, rounds, answered = None, 0, True
    for number, record in enumerate(records):
        if isinstance(record, ToolResult):
            if open_calls.pop(record.call, None) is None:
                raise ValueError(f"record {number} is the result of no open call")
            continue
        if open_calls:
            raise ValueError(f"record {number} comes before the result of a call")
        if isinstance(record, User):
            last_user, rounds, answered = number, 0, False
        else:
            open_calls = {call.id: call for call in record.tool_calls}
            used.update(open_calls)
            rounds += bool(open_calls)
            answered = not open_calls
    return Position(tuple(open_calls.values()), frozenset(used), last_user, rounds, answered)
