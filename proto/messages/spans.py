"""What every daemon tells egressd of its work: a span that has ended, one a datagram, never answered.

The words are OpenTelemetry's. Texts of a session stand apart from the other attributes, with the session's class:
egressd leaves them out above the ceiling of traces.
"""

from typing import Annotated, Final, Literal

import msgspec

from proto.ids import SpanId, TraceId
from proto.labels import DataClass
from proto.messages.wire import Datagram

MOST_BYTES: Final = 32 << 10
"""The longest datagram."""
Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Integer = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Value = str | bool | Integer | list[str]
Service = Literal["memoryd", "brokerd", "egressd", "loopd", "launcherd"]
TextClass = DataClass
"""How far the texts of a span may go."""


class Span(Datagram, frozen=True, tag="span"):
    """A span: when it began and ended (Unix nanoseconds), of which daemon; `parent_id` is None for the root of a trace.

    `error` says how it failed, in a word. `class` is the class of `texts`; None where there are none.
    """

    trace_id: TraceId
    span_id: SpanId
    parent_id: SpanId | None
    name: str
    span_kind: Literal["internal", "server", "client"]
    service: Service
    version: str
    began_ns: Nanoseconds
    ended_ns: Nanoseconds
    attributes: dict[str, Value]
    texts: dict[str, str]
    class_: TextClass | None = msgspec.field(name="class")
    error: str | None
