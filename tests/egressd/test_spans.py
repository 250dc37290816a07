"""The socket of spans: who may send, what comes through, and what hostile datagrams do."""

import array
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from egressd import spans as spans_module
from egressd.config import Traces
from egressd.export import readable
from egressd.spans import Spans, collected, collector, within
from proto import frame
from proto.labels import DataClass
from proto.messages.spans import MOST_BYTES, Span
from proto.role import listen, trace
from tests.egressd.test_export import a_span
from tests.fakes.collector import FakeCollector

BASE = "http://collector:4318"


class Inbox:
    """The socket of a home, and what came out of it."""

    def __init__(self, path: Path, ceiling: DataClass = DataClass.PRIVATE) -> None:
        self.path = str(path)
        self.taken: list[Span] = []
        self.receiving = listen.datagrams(path)
        self.spans = Spans(self.receiving, self.taken.append, ceiling)

    def send(self, data: bytes, fds: tuple[int, ...] = ()) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.sendmsg([data], rights, 0, self.path)


@pytest.fixture
def inbox(home: Path) -> Iterator[Inbox]:
    found = Inbox(home / "s.sock")
    yield found
    found.receiving.close()


def test_a_span_comes_through(inbox: Inbox) -> None:
    inbox.send(frame.body(a_span()))
    inbox.spans.take_waiting()
    assert inbox.taken == [a_span()]
    inbox.spans.take_waiting()
    assert len(inbox.taken) == 1


GOOD = frame.body(a_span())


def _changed(change: tuple[int, int]) -> bytes:
    at, byte = change
    return GOOD[: at % len(GOOD)] + bytes([byte]) + GOOD[at % len(GOOD) + 1 :]


HOSTILE = st.one_of(
    st.binary(max_size=300),
    st.tuples(st.integers(0, 10_000), st.integers(0, 255)).map(_changed),
    st.integers(0, len(GOOD)).map(lambda end: GOOD[:end]),
    st.sampled_from([b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x91" * 5_000, b"\xc7\xff", b"", GOOD + b"x"]),
)


@settings(max_examples=150)
@given(HOSTILE)
def test_hostile_datagrams_do_nothing(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="bx") as folder:
        inbox = Inbox(Path(folder) / "s.sock")
        with inbox.receiving:
            inbox.send(data)
            inbox.send(GOOD)
            inbox.spans.take_waiting()
        assert inbox.taken[-1] == a_span()
        assert len(encode_spans([readable(span) for span in inbox.taken]).resource_spans) in (1, 2)
        for span in inbox.taken:
            assert frame.Decoder((Span,)).decode(frame.body(span)) == span


ANY_SPAN = st.builds(
    Span,
    trace_id=st.just("f" * 32),
    span_id=st.just("0" * 15 + "1"),
    parent_id=st.none() | st.just("e" * 16),
    name=st.text(max_size=20),
    span_kind=st.sampled_from(["internal", "server", "client"]),
    service=st.sampled_from(["memoryd", "launcherd"]),
    version=st.text(max_size=5),
    began_ns=st.integers(0, (1 << 63) - 1),
    ended_ns=st.integers(0, (1 << 63) - 1),
    attributes=st.dictionaries(
        st.text(max_size=5),
        st.text(max_size=9)
        | st.booleans()
        | st.integers(-(1 << 63), (1 << 63) - 1)
        | st.lists(st.text(max_size=3), max_size=3),
        max_size=5,
    ),
    texts=st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=2),
    class_=st.none() | st.sampled_from(list(DataClass)),
    error=st.none() | st.text(max_size=9),
)


@settings(max_examples=100)
@given(ANY_SPAN)
def test_every_span_that_can_come_can_go_on(span: Span) -> None:
    assert frame.Decoder((Span,)).decode(frame.body(span)) == span
    (of,) = encode_spans([readable(span)]).resource_spans
    (sent,) = of.scope_spans[0].spans
    assert (sent.name, sent.start_time_unix_nano, sent.end_time_unix_nano) == (span.name, span.began_ns, span.ended_ns)


def test_what_is_too_long_is_dropped(inbox: Inbox) -> None:
    padding = MOST_BYTES - len(frame.body(msgspec.structs.replace(a_span(), name="x" * 40_000))) + 40_000
    longest = frame.body(msgspec.structs.replace(a_span(), name="x" * padding))
    assert len(longest) == MOST_BYTES
    inbox.send(longest)
    inbox.send(frame.body(msgspec.structs.replace(a_span(), name="x" * (padding + 1))))
    inbox.spans.take_waiting()
    assert [len(span.name) for span in inbox.taken] == [padding]


def test_file_descriptors_that_come_along_are_not_kept(inbox: Inbox) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        inbox.send(GOOD, fds=(0, 1, 2))
    inbox.spans.take_waiting()
    assert inbox.taken == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_another_user_is_not_heard(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox.send(GOOD)
    monkeypatch.setattr(spans_module, "_is_ours", lambda *_: False)
    inbox.spans.take_waiting()
    assert inbox.taken == []


@pytest.mark.parametrize("uid", [0, 1, 12345])
def test_ours_are_our_own_uid_and_root(uid: int) -> None:
    data = spans_module._CREDENTIALS.pack(77, uid, 5)
    ours = uid in (0, os.geteuid())
    assert spans_module._is_ours(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, data) is ours
    assert not spans_module._is_ours(socket.SOL_SOCKET, socket.SCM_RIGHTS, data)
    assert not spans_module._is_ours(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, data[:-1])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user_is_dropped(inbox: Inbox) -> None:
    os.chmod(inbox.path, 0o666)
    os.chmod(os.path.dirname(inbox.path), 0o755)
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        inbox.send(GOOD)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    inbox.spans.take_waiting()
    assert inbox.taken == []
    inbox.send(GOOD)
    inbox.spans.take_waiting()
    assert len(inbox.taken) == 1


@pytest.mark.parametrize("ceiling", list(DataClass))
@pytest.mark.parametrize("class_", [*DataClass, None])
def test_texts_above_the_ceiling_are_left_out(ceiling: DataClass, class_: DataClass | None) -> None:
    span = msgspec.structs.replace(a_span(), class_=class_)
    kept = within(span, ceiling)
    assert (kept.texts == {}) is (class_ is None or class_.rank > ceiling.rank)
    assert kept.attributes == span.attributes


CASES: list[tuple[dict[str, str], str | None, str | None]] = [
    ({}, None, None),
    ({}, BASE, f"{BASE}/v1/traces"),
    ({}, f"{BASE}/", f"{BASE}/v1/traces"),
    ({"OTEL_EXPORTER_OTLP_ENDPOINT": BASE}, None, f"{BASE}/v1/traces"),
    ({"OTEL_EXPORTER_OTLP_ENDPOINT": f"{BASE}/in/"}, "http://other", f"{BASE}/in/v1/traces"),
    ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, None, None),
    ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{BASE}/x"}, "http://other", f"{BASE}/x"),
    ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{BASE}/x", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://o"}, None, f"{BASE}/x"),
    ({"OTEL_EXPORTER_OTLP_ENDPOINT": BASE, "OTEL_SDK_DISABLED": "True"}, None, None),
    ({"OTEL_EXPORTER_OTLP_ENDPOINT": BASE, "OTEL_SDK_DISABLED": "no"}, None, f"{BASE}/v1/traces"),
    ({"OTEL_EXPORTER_OTLP_ENDPOINT": BASE, "OTEL_TRACES_EXPORTER": "none"}, None, None),
    ({"OTEL_EXPORTER_OTLP_ENDPOINT": BASE, "OTEL_TRACES_EXPORTER": "console, otlp"}, None, f"{BASE}/v1/traces"),
    ({"OTEL_EXPORTER_OTLP_ENDPOINT": BASE, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, None, None),
    (
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": BASE,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        },
        None,
        f"{BASE}/v1/traces",
    ),
    ({"OTEL_RESOURCE_ATTRIBUTES": "a=b"}, None, None),
]


@pytest.mark.parametrize(("environ", "endpoint", "found"), CASES)
def test_whether_and_where_traces_go(environ: dict[str, str], endpoint: str | None, found: str | None) -> None:
    assert collector(Traces(endpoint=endpoint), environ) == found


def _in(home: Path, **environ: str) -> Any:
    return collected(home / "run" / "s" / "spans.sock", Traces(), environ)


def test_the_socket_is_there_only_while_spans_are_collected(home: Path) -> None:
    path = home / "run" / "s" / "spans.sock"
    with FakeCollector() as fake:
        with _in(home, OTEL_EXPORTER_OTLP_ENDPOINT=fake.url):
            sink = trace.Datagrams(path)
            assert sink.is_open()
            sink.send(a_span())
            with trace.span("model.call"):
                pass
        assert {span.name for span in fake.wait_for(2)} == {"memory.read", "model.call"}
    assert not sink.is_open()
    listen.datagrams(path).close()
    with _in(home) as nothing:
        assert nothing is None
        assert not path.exists()


def test_a_variable_that_cannot_be_used_leaves_the_box_without_traces(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "0")
    with _in(home, OTEL_EXPORTER_OTLP_ENDPOINT=BASE) as nothing:
        assert nothing is None
    assert "traces-not-sent" in "".join(capsys.readouterr())
