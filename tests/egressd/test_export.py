"""What a collector gets, and that one which fails, or is not there, costs next to nothing."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from egressd import export
from egressd.export import Exporter
from proto.labels import DataClass
from proto.messages.spans import Span
from proto.role.trace import Datagrams
from tests.fakes.collector import FakeCollector

TRACE, SPAN, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"


def a_span(name: str = "memory.read", *, error: str | None = None, parent: str | None = PARENT) -> Span:
    return Span(
        trace_id=TRACE,
        span_id=SPAN,
        parent_id=parent,
        name=name,
        span_kind="server",
        service="memoryd",
        version="1.2.3",
        began_ns=1_790_000_000_000_000_001,
        ended_ns=1_790_000_000_000_000_999,
        attributes={"text": "Grüße, 世界", "yes": True, "count": 1 << 62, "list": ["a", "b"]},
        texts={"query": "who"},
        class_=DataClass.PRIVATE,
        error=error,
    )


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    """A thread that tries again draws from the `random` of all: a property that ran beside it would seem to do so."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 20
    while left := [thread for thread in threading.enumerate() if thread not in before]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    with FakeCollector() as found:
        yield found


def _sent(collector: FakeCollector, *spans: Span) -> None:
    exporter = Exporter(f"{collector.url}/v1/traces")
    for span in spans:
        exporter.take(span)
    exporter.close()


def _forget_resources() -> None:
    export._resource.cache_clear()
    export._common.cache_clear()


def test_a_span_arrives_with_the_ids_and_times_of_its_daemon(collector: FakeCollector) -> None:
    _sent(collector, a_span(), a_span("failed", error="busy", parent=None))
    good, failed = collector.wait_for(2)
    assert (good.trace, good.span, good.parent) == (TRACE, SPAN, PARENT)
    assert (good.began_ns, good.ended_ns, good.kind) == (1_790_000_000_000_000_001, 1_790_000_000_000_000_999, 2)
    assert good.attributes == {
        "text": "Grüße, 世界", "yes": True, "count": 1 << 62, "list": ["a", "b"], "query": "who",
    }  # fmt: skip
    resource = {"service.namespace": "boxmaker", "service.name": "memoryd", "service.version": "1.2.3"}
    assert resource.items() <= good.resource.items()
    assert (good.failed, failed.failed, failed.attributes["error.type"], failed.parent) == (False, True, "busy", "")
    assert collector.requests[0][0] == "/v1/traces"
    assert collector.requests[0][1]["content-type"] == "application/x-protobuf"


def test_the_usual_variables_apply(collector: FakeCollector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20t0ken")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=attic,service.name=mine")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    _forget_resources()
    _sent(collector, a_span())
    _forget_resources()
    assert collector.wait_for(1)[0].resource["deployment.environment.name"] == "attic"
    assert collector.spans[0].service == "memoryd"
    assert collector.requests[0][1]["authorization"] == "Bearer t0ken"
    assert collector.requests[0][1]["content-encoding"] == "gzip"


def test_a_batch_goes_out_as_often_as_the_variable_says(
    collector: FakeCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    exporter = Exporter(f"{collector.url}/v1/traces")
    exporter.take(a_span())
    collector.wait_for(1)
    exporter.close()


def test_a_sampler_can_be_chosen(collector: FakeCollector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    _sent(collector, a_span())
    assert collector.requests == []


def test_a_variable_that_cannot_be_used_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "0")
    with pytest.raises(ValueError, match="max_queue_size"):
        Exporter("http://127.0.0.1:9/v1/traces")


def test_the_owner_is_told_once_that_a_collector_fails(
    collector: FakeCollector, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
    collector.status = 400
    exporter = Exporter(f"{collector.url}/v1/traces?key=s3cret")
    for _ in range(3):
        exporter.take(a_span())
    while len(collector.requests) < 3:
        time.sleep(0.01)
    collector.status = 200
    exporter.take(a_span())
    collector.wait_for(1)
    exporter.close()
    said = "".join(capsys.readouterr())
    assert said.count("traces-not-taken") == 1
    assert said.count("traces-taken-again") == 1
    assert "Failed to export" not in said
    assert "s3cret" not in said


class _Clocked(threading.Thread):
    """A thread that tells how long it was waited for."""

    waited: ClassVar[list[float | None]] = []

    def join(self, timeout: float | None = None) -> None:
        self.waited.append(timeout)
        super().join(timeout if timeout is None else 0.01)


def test_the_end_waits_for_a_collector_no_longer_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with FakeCollector(silent=True) as silent:
        exporter = Exporter(f"{silent.url}/v1/traces")
        for _ in range(1_000):
            exporter.take(a_span())
        monkeypatch.setattr(threading, "Thread", _Clocked)
        exporter.close()
    assert export.LAST_S in _Clocked.waited
    assert export.LAST_S < 1


@pytest.mark.parametrize("kind", ["silent", "refused"])
def test_a_daemon_whose_collector_is_dead_ends_in_time(home: Path, kind: str) -> None:
    with FakeCollector(silent=True) as silent:
        url = silent.url if kind == "silent" else "http://127.0.0.1:9"
        environ = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "1"}
        command = [sys.executable, "-m", "egressd", "serve", "--home", str(home)]
        with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as daemon:
            assert daemon.stderr is not None
            assert '"ready"' in daemon.stderr.readline()
            path = home / "run/spans-egress/spans.sock"
            Datagrams(path).send(a_span())
            if kind == "silent":
                silent.wait_asked()
            began = time.monotonic()
            daemon.terminate()
            said = daemon.stderr.read()
        assert daemon.returncode == 0
        assert time.monotonic() - began < 5
        assert "Traceback" not in said
        assert not path.exists()


LOADED = """
import sys, runpy, threading, os, signal
from egressd import app
from proto.role import main
def loaded():
    print(sorted(name for name in sys.modules if name.startswith("opentelemetry"))[:3], flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
real = main._say_ready
main._say_ready = lambda: (real(), loaded())
sys.argv = ["egressd", "serve", "--home", sys.argv[1]]
sys.exit(main.main("egressd", "", app.run))
"""


def test_without_a_collector_nothing_is_imported_and_no_socket_is_made(home: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    command = [sys.executable, "-c", LOADED, str(home)]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30, check=True)
    assert ran.stdout == "[]\n"
    assert (home / "run/owner-egress/admin.sock").exists()
    assert not (home / "run/spans-egress").exists()
