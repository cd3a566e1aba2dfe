"""Spans for the SDK of OpenTelemetry, and its exporter. Importing this needs the extra `otel`."""

import logging
from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, Tracer, set_span_in_context

from pylaunch.features.traces.spans import TimedSpan

NANOSECONDS = 1_000_000_000


def export(trace: TimedSpan, exporter: SpanExporter | None = None) -> bool:
    """Send a trace in one request, as the variables OTEL_* say; return whether the collector took it.

    Raises ValueError for a variable with a bad value.
    """
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)  # It would write to the terminal.
    made = InMemorySpanExporter()
    provider = TracerProvider(
        resource=Resource({SERVICE_NAME: "pylaunch"}).merge(OTELResourceDetector().detect()), shutdown_on_exit=False
    )
    provider.add_span_processor(SimpleSpanProcessor(made))
    _add([trace], provider.get_tracer("pylaunch"), None)
    spans = made.get_finished_spans()
    return not spans or (exporter or OTLPSpanExporter()).export(spans) is SpanExportResult.SUCCESS


def _add(spans: Sequence[TimedSpan], tracer: Tracer, context: Context | None) -> None:
    for each in spans:
        begin = int(each.begin * NANOSECONDS)
        span = tracer.start_span(each.name, context, attributes=each.attributes, start_time=begin)
        if each.has_failed:
            span.set_status(StatusCode.ERROR)
        _add(each.inner, tracer, set_span_in_context(span))
        span.end(int(each.end * NANOSECONDS))
