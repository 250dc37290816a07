"""Spans: what goes along with requests, what is told of them, and that nobody waits or fails for them."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proto import frame
from proto.faults import Fault
from proto.labels import DataClass
from proto.messages.spans import MOST_BYTES, Span
from proto.messages.wire import Ok, Ping, Verify
from proto.role import listen, trace
from proto.role.call import call
from proto.role.serve import Connection, Server
from tests.fakes import spans
from tests.fakes.spans import KeptSpans

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def kept() -> Iterator[KeptSpans]:
    with spans.kept("brokerd") as sink:
        yield sink


@pytest.fixture(autouse=True)
def nothing_under_way() -> Iterator[None]:
    trace.follow(None)
    yield
    trace.follow(None)


def test_a_span_is_a_child_of_the_one_around_it(kept: KeptSpans) -> None:
    with trace.span("outer") as outer:
        assert trace.current() == outer.traceparent
        with trace.span("inner", "client") as inner:
            assert trace.current() == inner.traceparent
        assert trace.current() == outer.traceparent
    assert trace.current() is None
    told_inner, told_outer = kept.spans
    assert (told_inner.name, told_inner.span_kind, told_inner.parent_id) == ("inner", "client", told_outer.span_id)
    assert told_inner.trace_id == told_outer.trace_id
    assert told_outer.parent_id is None
    assert told_outer.service == "brokerd"
    assert told_outer.began_ns <= told_inner.began_ns <= told_inner.ended_ns <= told_outer.ended_ns


def test_a_trace_that_came_with_a_request_is_followed(kept: KeptSpans) -> None:
    trace.follow(PARENT)
    with trace.span("asked"):
        pass
    assert (kept.spans[0].trace_id, kept.spans[0].parent_id) == (PARENT[3:35], PARENT[36:52])


@pytest.mark.parametrize(
    "parent",
    [
        None,
        "",
        "no trace",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
        PARENT.replace("00-", "ff-", 1),
        PARENT.upper(),
        f"{PARENT}\n",
    ],
)
def test_what_is_no_traceparent_begins_a_trace(kept: KeptSpans, parent: str | None) -> None:
    trace.follow(parent)
    with trace.span("root") as work:
        pass
    assert kept.spans[0].parent_id is None
    assert kept.spans[0].trace_id not in (PARENT[3:35], "0" * 32)
    assert frame.Decoder((Span,)).decode(frame.body(kept.spans[0])) == kept.spans[0]
    assert work.traceparent == f"00-{kept.spans[0].trace_id}-{kept.spans[0].span_id}-01"


def test_a_caller_that_says_not_sampled_hides_nothing(kept: KeptSpans) -> None:
    trace.follow(PARENT.removesuffix("01") + "00")
    with trace.span("call"):
        pass
    assert kept.spans[0].trace_id == PARENT[3:35]


def test_an_exception_is_the_error_of_its_span(kept: KeptSpans) -> None:
    with pytest.raises(Fault), trace.span("a"):
        raise Fault("busy")
    with pytest.raises(KeyError), trace.span("b"):
        raise KeyError("x")
    with trace.span("c") as work:
        work.error = "upstream-cut"
    assert [span.error for span in kept.spans] == ["busy", "KeyError", "upstream-cut"]
    assert trace.current() is None


def test_nothing_goes_along_and_nothing_is_told_where_nobody_collects(kept: KeptSpans) -> None:
    kept.open = False
    with trace.span("a") as work:
        work.say({"x": 1})
        assert trace.current() is None
    trace.start("brokerd", None)
    kept.open = True
    with trace.span("b"):
        assert trace.current() is None
    assert kept.spans == []


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=5_000)


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from("abcdefgh"), ANY_TEXT | st.lists(ANY_TEXT, max_size=3), max_size=8))
def test_whatever_is_said_of_a_span_can_be_sent(said: dict[str, str | list[str]]) -> None:
    work = trace.Work("w", "internal", None)
    work.say(dict(said))
    work.say({"number": 1 << 62, "yes": True, "none": None})
    work.quote(DataClass.SECRET, {name: value for name, value in said.items() if isinstance(value, str)})
    span = work.ended("memoryd")
    assert frame.Decoder((Span,)).decode(frame.body(span)) == span
    assert "none" not in span.attributes
    assert (span.attributes["number"], span.attributes["yes"]) == (1 << 62, True)
    assert all(len(text) <= 2_000 for text in span.texts.values())


def _received(receiver: socket.socket) -> Span:
    span: Span = frame.Decoder((Span,)).decode(receiver.recv(1 << 20))
    return span


def test_a_span_is_one_datagram_with_its_sender(home: Path) -> None:
    path = home / "run" / "s" / "spans.sock"
    with listen.datagrams(path) as receiver:
        trace.Datagrams(path).send(trace.Work("w", "internal", None).ended("loopd"))
        data, ancillary, _flags, _address = receiver.recvmsg(1 << 16, socket.CMSG_SPACE(12))
    assert frame.Decoder((Span,)).decode(data).name == "w"
    ((level, kind, credentials),) = ancillary
    assert (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
    assert struct.unpack("3i", credentials)[1] >= 0


def test_texts_that_do_not_fit_are_left_out(home: Path) -> None:
    path = home / "s.sock"
    work = trace.Work("w", "internal", None)
    work.quote(DataClass.PRIVATE, {f"t{number}": "世" * 2_000 for number in range(9)})
    assert len(frame.body(work.ended("loopd"))) > MOST_BYTES
    with listen.datagrams(path) as receiver:
        trace.Datagrams(path).send(work.ended("loopd"))
        span = _received(receiver)
    assert (span.name, span.texts, span.class_) == ("w", {}, None)


def test_spans_are_dropped_when_the_socket_is_full_gone_or_none(home: Path) -> None:
    path = home / "s.sock"
    sink = trace.Datagrams(path)
    span = trace.Work("w", "internal", None).ended("loopd")
    assert not sink.is_open()
    sink.send(span)
    with listen.datagrams(path) as receiver:
        assert sink.is_open()
        for _ in range(3_000):
            sink.send(span)
        held = 0
        while True:
            try:
                receiver.recv(1 << 16)
            except BlockingIOError:
                break
            held += 1
        assert 0 < held < 3_000
    sink.send(span)
    trace.Datagrams(home / ("x" * 200)).send(span)


async def _asked_of(home: Path, request: msgspec.Struct) -> list[str | None]:
    """What a desk sees of the trace: in the request, in its own span, and in what it asks on."""
    seen: list[str | None] = []

    async def last(request: Ping | Verify, connection: Connection) -> msgspec.Struct:
        seen.extend([request.trace, trace.current()])
        return Ok()

    async def first(request: Ping | Verify, connection: Connection) -> msgspec.Struct:
        seen.append(request.trace)
        with trace.span("first") as work:
            seen.append(work.traceparent)
            await call(home / "b.sock", Verify(), Ok)
        return Ok()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Server("a", (Ping, Verify), first).serve, listen.listen(home / "a.sock"))
        tasks.start_soon(Server("b", (Ping, Verify), last).serve, listen.listen(home / "b.sock"))
        await call(home / "a.sock", request, Ok)
        tasks.cancel_scope.cancel()
    return seen


@pytest.mark.anyio
async def test_one_trace_goes_from_daemon_to_daemon(home: Path, kept: KeptSpans) -> None:
    came, own, asked_on, there = await _asked_of(home, Verify(trace=PARENT))
    assert came == PARENT
    assert own is not None
    assert own[:35] == PARENT[:35]
    assert asked_on == there == own
    assert (await _asked_of(home, Verify()))[0] is None


@pytest.mark.anyio
async def test_without_a_collector_a_trace_only_passes_through(home: Path) -> None:
    came, _own, asked_on, _there = await _asked_of(home, Verify(trace=PARENT))
    assert came == asked_on == PARENT


def test_what_is_under_way_is_spoken_of_from_within(kept: KeptSpans) -> None:
    trace.say({"lost": 1})
    trace.follow(PARENT)
    trace.fail("lost")
    began_ns = trace.now_ns()
    with trace.span("turn", began_ns=began_ns - 5):
        trace.say({"said": "yes", "none": None})
        trace.fail("busy")
        trace.tell("decision", began_ns, {"allow": False})
    decision, turn = kept.spans
    assert (turn.attributes, turn.error, turn.parent_id) == ({"said": "yes"}, "busy", PARENT[36:52])
    assert (decision.parent_id, decision.began_ns, decision.attributes) == (turn.span_id, began_ns, {"allow": False})
    assert decision.ended_ns >= began_ns
    assert turn.began_ns == began_ns - 5
    kept.open = False
    trace.tell("decision", began_ns, {})
    assert len(kept.spans) == 2
