"""Traces of starts for OpenTelemetry, where OTEL_EXPORTER_OTLP_ENDPOINT or its variant for traces names a collector.

spans      pure: the spans of each attempt
observer   does nothing without a collector
sending    a thread for each trace, whose failure is one line of warning
export     the SDK of OpenTelemetry and its exporter (OTLP over HTTP)
"""

OBSERVER_OF_ALL_RUNS = "pylaunch.features.traces.observer"
