"""A collector of traces: OTLP over HTTP as protobuf, on loopback.

Features: keeps each span with the resource that it is of, decoded by OpenTelemetry's own messages, gzip too; keeps
paths and headers; answers with a chosen status; `silent`: takes the request and never answers; waits for so many spans.
"""

import gzip
import http.server
import threading
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collected(NamedTuple):
    """A span as it came."""

    name: str
    trace: str
    span: str
    parent: str
    kind: int
    began_ns: int
    ended_ns: int
    attributes: dict[str, Any]
    resource: dict[str, Any]
    failed: bool

    @property
    def service(self) -> str:
        """The daemon."""
        return str(self.resource["service.name"])


class FakeCollector:
    """The collector; it listens inside `with`."""

    def __init__(self, *, status: int = 200, silent: bool = False) -> None:
        self.status = status
        self.silent = silent
        self.spans: list[Collected] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self._came = threading.Condition()
        self._ended = threading.Event()

    @property
    def url(self) -> str:
        """The base that `OTEL_EXPORTER_OTLP_ENDPOINT` names."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def wait_for(self, count: int, timeout_s: float = 10.0) -> list[Collected]:
        """The spans, once there are so many."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.spans) >= count, timeout_s), f"{len(self.spans)} of {count}"
        return list(self.spans)

    def wait_asked(self, timeout_s: float = 10.0) -> None:
        """Wait until something was sent."""
        with self._came:
            assert self._came.wait_for(lambda: bool(self.requests), timeout_s)

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        """Take a batch."""
        with self._came:
            self.requests.append((path, headers))
            self._came.notify_all()
        if self.silent:
            self._ended.wait(30)
            return
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        found = _spans(ExportTraceServiceRequest.FromString(body))
        with self._came:
            self.spans += found if self.status == 200 else []
            self._came.notify_all()

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"collector": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    collector: FakeCollector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.collector.take(self.path, headers, body)
        self.send_response(self.collector.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def _spans(request: Any) -> list[Collected]:
    return [
        Collected(
            name=span.name,
            trace=span.trace_id.hex(),
            span=span.span_id.hex(),
            parent=span.parent_span_id.hex(),
            kind=span.kind,
            began_ns=span.start_time_unix_nano,
            ended_ns=span.end_time_unix_nano,
            attributes=_values(span.attributes),
            resource=_values(of.resource.attributes),
            failed=span.status.code == span.status.STATUS_CODE_ERROR,
        )
        for of in request.resource_spans
        for scope in of.scope_spans
        for span in scope.spans
    ]


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    held = getattr(value, value.WhichOneof("value"))
    return [_value(item) for item in held.values] if hasattr(held, "values") else held
