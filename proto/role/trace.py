"""Traces: each daemon tells of its work in spans, one datagram each to egressd, never waited for, dropped when full.

A trace goes along with requests as a W3C traceparent: `role.serve` takes it from what is asked, `role.call` puts it
into what is asked on, and a span in between becomes the parent. Where egressd sends no traces on there is no socket,
and then nothing is made, packed or sent.
"""

import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from proto import frame
from proto.faults import Fault
from proto.ids import is_traceparent
from proto.messages.spans import MOST_BYTES, Service, Span, TextClass, Value
from proto.messages.wire import Traced

Kind = Literal["internal", "server", "client"]
_Traced = TypeVar("_Traced", bound=Traced)
_LONGEST_CHARS: Final = 2_000
_MOST_ITEMS: Final = 50
_ITEM_CHARS: Final = 200
_DATAGRAMS: Final = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16


class Sink(Protocol):
    """Where spans go."""

    def is_open(self) -> bool:
        """Whether anybody wants them."""
        ...

    def send(self, span: Span) -> None:
        """Take a span, or drop it; never wait, and never fail."""
        ...


class Datagrams:
    """egressd's socket. It is there only while egressd sends traces on."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def is_open(self) -> bool:
        """Whether the socket is there."""
        return os.path.exists(self._path)

    def send(self, span: Span) -> None:
        """Send a span, without its texts where it is too long with them."""
        data = frame.body(span)
        if len(data) > MOST_BYTES:
            data = frame.body(msgspec.structs.replace(span, texts={}, class_=None))
        # Full, gone, or no path of a socket: a span is worth no more than this.
        with suppress(OSError), socket.socket(socket.AF_UNIX, _DATAGRAMS) as sending:
            sending.sendto(data, self._path)


class _Told(NamedTuple):
    service: Service
    sink: Sink


_told: _Told | None = None


def start(service: Service, sink: Sink | None) -> None:
    """From now on this process tells a sink of its spans, in the name of a daemon; None: nobody."""
    global _told  # noqa: PLW0603  (one a process, as its log)
    _told = None if sink is None else _Told(service, sink)


def now_ns() -> int:
    """The time now, as spans have it."""
    return time.time_ns()


class Work:
    """A span that has begun; what is said of it is said until it ends."""

    def __init__(self, name: str, kind: Kind, parent: str | None, began_ns: int | None = None) -> None:
        self.name = name
        self.kind = kind
        self.began_ns = now_ns() if began_ns is None else began_ns
        self.error: str | None = None
        """How it failed, in a word."""
        self.trace_id, self.parent_id = _read(parent)
        self.span_id = secrets.token_hex(8)
        self._attributes: dict[str, Value] = {}
        self._texts: dict[str, str] = {}
        self._class: TextClass | None = None

    @property
    def traceparent(self) -> str:
        """What a request takes along, so that its spans are children of this one."""
        return f"00-{self.trace_id}-{self.span_id}-01"

    def say(self, attributes: Mapping[str, Value | None]) -> None:
        """Attributes of the span; those that are None are left out."""
        self._attributes.update({name: _clipped(value) for name, value in attributes.items() if value is not None})

    def quote(self, class_: TextClass, texts: Mapping[str, str]) -> None:
        """The texts of the span and their class: above the ceiling of traces they are left out."""
        self._texts = {name: _clip(text, _LONGEST_CHARS) for name, text in texts.items()}
        self._class = class_

    def ended(self, service: Service) -> Span:
        """The span as it is told."""
        return Span(
            trace_id=self.trace_id,
            span_id=self.span_id,
            parent_id=self.parent_id,
            name=self.name,
            span_kind=self.kind,
            service=service,
            version=version(),
            began_ns=self.began_ns,
            # A clock that was set back meanwhile must not make it end before it began.
            ended_ns=max(self.began_ns, now_ns()),
            attributes=self._attributes,
            texts=self._texts,
            class_=self._class,
            error=self.error,
        )


class _Unheard(Work):
    """What stands for a span that nobody wants: nothing is made of it, and nothing is kept."""

    def say(self, attributes: Mapping[str, Value | None]) -> None:
        """Keep nothing."""

    def quote(self, class_: TextClass, texts: Mapping[str, str]) -> None:
        """Keep nothing."""


_under_way: ContextVar[Work | str | None] = ContextVar("trace", default=None)
"""In each task the span that it works on, or the traceparent that came with a request."""


def current() -> str | None:
    """The traceparent of what is under way in this task, or None."""
    under_way = _under_way.get()
    return under_way.traceparent if isinstance(under_way, Work) else under_way


def joined(asked: _Traced) -> _Traced:
    """What is asked as part of the trace that is under way, unless it says which one it belongs to."""
    under_way = current()
    return asked if under_way is None or asked.trace is not None else msgspec.structs.replace(asked, trace=under_way)


def is_told() -> bool:
    """Whether this task works on a span that somebody wants: what is said of it is worth making."""
    return isinstance(_under_way.get(), Work)


def follow(trace: str | None) -> None:
    """What this task does from now on belongs to a trace: the one that came with a request."""
    _under_way.set(trace)


def say(attributes: Mapping[str, Value | None]) -> None:
    """Attributes of the span that this task works on, if there is one."""
    if isinstance(under_way := _under_way.get(), Work):
        under_way.say(attributes)


def fail(word: str) -> None:
    """The span that this task works on, if there is one, has failed."""
    if isinstance(under_way := _under_way.get(), Work):
        under_way.error = word


@contextmanager
def span(name: str, kind: Kind = "internal", began_ns: int | None = None) -> Iterator[Work]:
    """A span of what is done in the block, or since a time (Unix nanoseconds); a child of what is under way.

    An exception that leaves the block is its error. Requests that leave inside it take it along.
    """
    told = _told
    if told is None or not told.sink.is_open():
        yield _UNHEARD
        return
    work = Work(name, kind, current(), began_ns)
    before = _under_way.set(work)
    try:
        yield work
    except BaseException as error:
        work.error = work.error or _word(error)
        raise
    finally:
        _under_way.reset(before)
        told.sink.send(work.ended(told.service))


def tell(name: str, began_ns: int, attributes: Mapping[str, Value | None], kind: Kind = "internal") -> None:
    """A span of what began at a time (Unix nanoseconds) and ends now; nothing was asked on in it."""
    told = _told
    if told is not None and told.sink.is_open():
        work = Work(name, kind, current(), began_ns)
        work.say(attributes)
        told.sink.send(work.ended(told.service))


@cache
def version() -> str:
    """The version of the box; empty where it runs uninstalled."""
    from importlib import metadata

    try:
        return metadata.version("boxmaker")
    except metadata.PackageNotFoundError:
        return ""


def _read(parent: str | None) -> tuple[str, str | None]:
    """The trace and the parent that a traceparent names; a new trace where it names none (W3C Trace Context, 3.2.2)."""
    if parent is not None and is_traceparent(parent) and not parent.startswith("ff"):
        _, trace_id, parent_id, _ = parent.split("-")
        if trace_id != _NO_TRACE and parent_id != _NO_SPAN:
            return trace_id, parent_id
    return secrets.token_hex(16), None


def _word(error: BaseException) -> str:
    return error.code if isinstance(error, Fault) else type(error).__name__


def _clipped(value: Value) -> Value:
    match value:
        case str():
            return _clip(value, _LONGEST_CHARS)
        case list():
            return [_clip(item, _ITEM_CHARS) for item in value[:_MOST_ITEMS]]
        case _:
            return value


def _clip(text: str, longest_chars: int) -> str:
    """A text that is not too long, and that is Unicode: half of a surrogate pair cannot be sent."""
    kept = text if len(text) <= longest_chars else f"{text[: longest_chars - 1]}…"
    return kept if kept.isascii() else kept.encode("utf-8", "replace").decode()


_UNHEARD: Final = _Unheard("", "internal", None)
