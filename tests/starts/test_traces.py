"""The trace of a start at a collector on loopback: the protobuf that it gets, and what a collector that fails costs."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended
from tests.starts.receiver import receiving

KEY = "s3cr3t-key-of-the-collector"


@contextmanager
def collector(status: int) -> Iterator[tuple[str, list[tuple[str, str, ExportTraceServiceRequest]]]]:
    """A collector and what it got: path, key and request."""
    taken: list[tuple[str, str, ExportTraceServiceRequest]] = []

    def take(request: BaseHTTPRequestHandler, body: bytes) -> None:
        taken.append((request.path, request.headers["api-key"], ExportTraceServiceRequest.FromString(body)))
        request.send_response(status)
        request.end_headers()

    with receiving(take) as port:
        yield f"http://127.0.0.1:{port}", taken


@pytest.fixture
def cluster(directories: Callable[..., DirectoryCluster], monkeypatch: pytest.MonkeyPatch) -> DirectoryCluster:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"api-key={KEY}")
    return directories("n1", "n2")


def test_the_collector_gets_the_start_with_the_first_lines(
    cluster: DirectoryCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('trains')\n")
    with collector(200) as (url, taken):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        done = ended(cluster.start("--", sys.executable, str(script)))
    assert done.returncode == ExitCode.DONE, done.stderr
    assert "warning" not in done.stderr
    ((path, key, request),) = taken
    (resource,) = request.resource_spans
    assert (path, key) == ("/v1/traces", KEY)
    assert [each.value.string_value for each in resource.resource.attributes] == ["pylaunch"]
    spans = resource.scope_spans[0].spans
    names = [span.name for span in sorted(spans, key=lambda span: span.start_time_unix_nano)]
    assert sorted(names) == sorted(["start", "connect", "prepare", "ready", "ready", "release", "first line"])
    assert names[0] == "start"
    (root,) = (span for span in spans if not span.parent_span_id)
    (run,) = cluster.outcomes()
    assert run in {each.value.string_value for each in root.attributes}
    assert all(root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)


def test_a_refused_trace_costs_one_line_without_the_address(
    cluster: DirectoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collector(403) as (url, taken):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        done = ended(cluster.start("--", "sh", "-c", "exit 3"))
    assert done.returncode == ExitCode.JOB_FAILED, done.stderr
    assert len(taken) == 1
    assert re.findall("warning: .*", done.stderr) == [
        "warning: the trace was not delivered to the collector of OTEL_EXPORTER_OTLP_ENDPOINT: not accepted"
    ]
    assert KEY not in done.stderr + done.stdout
    assert url not in done.stderr


def test_a_start_imports_nothing_of_opentelemetry_before_it_sends_a_trace() -> None:
    program = (
        "import sys; from pylaunch.features.traces.observer import observer; print(type(observer()).__name__); "
        "import pylaunch.cli.planning; print('opentelemetry' in sys.modules)"
    )
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Tracing", "False"]
