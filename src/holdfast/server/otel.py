"""Exports spans by OTLP over HTTP: a bounded queue and a thread of the OpenTelemetry SDK.

The only module that imports OpenTelemetry; it is imported only where `[otel]` names an endpoint.
"""

from threading import Thread

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from holdfast import __version__
from holdfast.core.config.settings import OtelSettings
from holdfast.core.ops import tracing
from holdfast.core.secrets import Secret

_CLOSE_TIMEOUT = 3.0  # seconds to send what is still queued at a stop
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_KINDS = {
    tracing.SpanKind.CONSUMER: SpanKind.CONSUMER,
    tracing.SpanKind.PRODUCER: SpanKind.PRODUCER,
    tracing.SpanKind.CLIENT: SpanKind.CLIENT,
    tracing.SpanKind.INTERNAL: SpanKind.INTERNAL,
}


def otlp_exporter(settings: OtelSettings, *, secret: Secret | None) -> SpanExporter:
    """Speaks to the endpoint of the settings."""
    headers = {settings.header: secret.reveal()} if secret is not None else {}
    return OTLPSpanExporter(endpoint=settings.endpoint, headers=headers, timeout=_CLOSE_TIMEOUT)


class OtlpSpanSender:
    """Owns the queue and its thread. The SDK drops spans that the full queue cannot take."""

    def __init__(
        self, exporter: SpanExporter, *, service: str, close_timeout: float = _CLOSE_TIMEOUT
    ) -> None:
        self._exporter = exporter
        self._close_timeout = close_timeout
        self._resource = Resource({"service.name": service, "service.version": __version__})
        self._scope = InstrumentationScope("holdfast", __version__)
        self._processor = BatchSpanProcessor(exporter)

    def export(self, span: tracing.TraceSpan) -> None:
        parent = (
            None if span.parent is None else tracing.SpanContext(span.context.trace_id, span.parent)
        )
        attributes = dict(span.attributes)
        if span.error:
            attributes["error.type"] = span.error
        self._processor.on_end(
            ReadableSpan(
                name=span.name,
                context=_context(span.context),
                parent=None if parent is None else _context(parent),
                resource=self._resource,
                attributes=attributes,
                links=[Link(_context(linked)) for linked in span.links],
                kind=_KINDS[span.kind],
                instrumentation_scope=self._scope,
                status=Status(StatusCode.ERROR if span.error else StatusCode.UNSET),
                start_time=_nanoseconds(span.began_at),
                end_time=_nanoseconds(max(span.began_at, span.ended_at)),
            )
        )

    def close(self) -> None:
        """Send what is queued within the close timeout, then give up. The SDK alone would wait
        half a minute for a collector that does not answer, and hold up the stop."""
        closing = Thread(target=self._processor.shutdown, name="last spans", daemon=True)
        closing.start()
        closing.join(self._close_timeout)
        if closing.is_alive():
            self._exporter.shutdown()  # wakes it between two retries
            closing.join(self._close_timeout)


def _context(span_context: tracing.SpanContext) -> SpanContext:
    return SpanContext(
        span_context.trace_id, span_context.span_id, is_remote=False, trace_flags=_SAMPLED
    )


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
