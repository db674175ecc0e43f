"""The span sender with a collector on this machine, and with one that is gone."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from holdfast.core.config.settings import OtelSettings
from holdfast.core.ids import InboxId
from holdfast.core.ops.tracing import SpanKind, TraceSpan, root_span_context
from holdfast.core.secrets import Secret
from holdfast.server.otel import OtlpSpanSender, otlp_exporter

SPAN = TraceSpan(
    context=root_span_context(InboxId(7), key="a gateway"),
    parent=None,
    name="accept irc",
    kind=SpanKind.CONSUMER,
    began_at=1000.0,
    ended_at=1000.5,
    attributes={"holdfast.inbox.id": 7},
    error="failed",
)
CollectedRequest = tuple[str, str | None, bytes]


@contextmanager
def collector() -> Iterator[tuple[str, Queue[CollectedRequest]]]:
    collected: Queue[CollectedRequest] = Queue()

    class CollectorHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collected.put((self.path, self.headers["X-Team"], body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Writes no log."""

    with HTTPServer(("127.0.0.1", 0), CollectorHandler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/traces", collected
        finally:
            server.shutdown()
            thread.join()


def test_spans_arrive_with_the_configured_header() -> None:
    with collector() as (address, collected):
        settings = OtelSettings(endpoint=address, header="X-Team", service="here")
        sender = OtlpSpanSender(
            otlp_exporter(settings, secret=Secret("let me in")), service=settings.service
        )
        sender.export(SPAN)
        sender.close()
        path, team, body = collected.get(timeout=20)
    assert (path, team) == ("/v1/traces", "let me in")
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    named = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert named["service.name"] == "here"
    (span,) = resource.scope_spans[0].spans
    assert span.name == "accept irc" and not span.parent_span_id
    assert int.from_bytes(span.trace_id, "big") == SPAN.context.trace_id
    assert span.end_time_unix_nano - span.start_time_unix_nano == 500_000_000
    keys = {each.key for each in span.attributes}
    assert keys == {"holdfast.inbox.id", "error.type"}


def test_a_missing_collector_delays_nothing() -> None:
    with collector() as (address, _):
        pass  # nothing listens there any more
    exporter = otlp_exporter(OtelSettings(endpoint=address), secret=None)
    sender = OtlpSpanSender(exporter, service="here", close_timeout=0.2)
    began = time.monotonic()
    for _ in range(5_000):  # more than the queue has room for
        sender.export(SPAN)
    sender.close()
    assert time.monotonic() - began < 30
