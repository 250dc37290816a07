"""Spans on their way to a collector: OTLP over HTTP, as protobuf. The one door to OpenTelemetry.

It takes a third of a second to import, so nobody does unless a collector is named. Spans wait in a bounded queue and
leave in a thread of their own: a collector that is slow, gone or silent holds nothing up, and its end is bounded.
"""

import logging
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_NAMESPACE, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from proto.messages.spans import Span
from proto.role.log import logger

NAMESPACE: Final = "boxmaker"
LAST_S: Final = 0.7
"""How long the last spans may take to leave when the daemon ends."""
_MOST_RESOURCES: Final = 64
"""A daemon has one version at a time; whoever sends others makes no more of them than this."""
_KINDS: Final = {"internal": SpanKind.INTERNAL, "server": SpanKind.SERVER, "client": SpanKind.CLIENT}
_OK: Final = Status(StatusCode.UNSET)
_FAILED: Final = Status(StatusCode.ERROR)
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


class Exporter:
    """Sends spans on. What of it can be set, the variables `OTEL_…` of the environment set."""

    def __init__(self, endpoint: str) -> None:
        """`endpoint` is the whole URL that spans are posted to.

        Raises:
            Exception: a variable has a value that cannot be used.

        """
        # It tells of each failed batch with a traceback; what the owner must know, `_Telling` says once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._sampler = TracerProvider(shutdown_on_exit=False).sampler
        self._processor = BatchSpanProcessor(_Telling(OTLPSpanExporter(endpoint=endpoint), endpoint))

    def take(self, span: Span) -> None:
        """Put a span into the queue; a full one loses its oldest."""
        if self._sampler.should_sample(None, int(span.trace_id, 16), span.name).decision is Decision.RECORD_AND_SAMPLE:
            self._processor.on_end(readable(span))

    def close(self) -> None:
        """Send what waits, if it takes no longer than a moment."""
        last = threading.Thread(target=self._processor.shutdown, daemon=True)
        last.start()
        last.join(LAST_S)


class _Telling(SpanExporter):
    """An exporter whose owner is told when the collector begins to fail, and when it is back."""

    def __init__(self, exporter: OTLPSpanExporter, endpoint: str) -> None:
        self._exporter = exporter
        self._endpoint = endpoint.partition("?")[0]
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        result = self._exporter.export(spans)
        failed = result is not SpanExportResult.SUCCESS
        if failed and not self._failing:
            logger().warning("traces-not-taken", collector=self._endpoint, spans=len(spans))
        elif self._failing and not failed:
            logger().info("traces-taken-again", collector=self._endpoint)
        self._failing = failed
        return result

    def shutdown(self) -> None:
        """Send no more."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def readable(span: Span) -> ReadableSpan:
    """A span in OpenTelemetry's own shape, with the ids and times that its daemon gave it."""
    trace_id = int(span.trace_id, 16)
    failure = {} if span.error is None else {"error.type": span.error}
    return ReadableSpan(
        name=span.name,
        context=SpanContext(trace_id, int(span.span_id, 16), is_remote=False, trace_flags=_SAMPLED),
        parent=None
        if span.parent_id is None
        else SpanContext(trace_id, int(span.parent_id, 16), is_remote=True, trace_flags=_SAMPLED),
        resource=_resource(span.service, span.version),
        attributes={**span.attributes, **span.texts, **failure},
        kind=_KINDS[span.span_kind],
        status=_OK if span.error is None else _FAILED,
        start_time=span.began_ns,
        end_time=span.ended_ns,
        instrumentation_scope=InstrumentationScope(NAMESPACE, span.version),
    )


@lru_cache(_MOST_RESOURCES)
def _resource(service: str, version: str) -> Resource:
    """The daemon that a span is of, with what `OTEL_RESOURCE_ATTRIBUTES` adds."""
    own = {SERVICE_NAMESPACE: NAMESPACE, SERVICE_NAME: service, SERVICE_VERSION: version}
    return _common().merge(Resource(own))


@lru_cache(1)
def _common() -> Resource:
    return Resource.create()
