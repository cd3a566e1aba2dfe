"""The trace of a start: its spans, and no observer without a collector."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pylaunch.features.traces.export import NANOSECONDS, export
from pylaunch.features.traces.observer import observer
from pylaunch.features.traces.sending import Tracing
from pylaunch.features.traces.spans import StartTrace, TimedSpan
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.run import Event, EventKind
from pylaunch.runs.prepare.session import Start
from pylaunch.runs.start_events import AttemptEnded, AttemptStarted, RanksReleased, StartEvent
from pylaunch.terminal.doors import RunEnding, RunObserver

NOW = 1_780_000_000.0
JOB = JobSpec(("train.py",), Framework.DIRECT, "/srv")
PLAN = plan_run(Cluster((Host("gpu01", "10.0.0.1"), Host("gpu02", "10.0.0.2"))), JOB, "7f3a9c01")
STARTED = Start({"connect": 0.5, "prepare": 1.0, "preload": 3.0, "release": 0.25}, 0.001, 0.001, NOW + 9.9, NOW + 2)
"""It waited for two seconds in the queue, and the checks were judged for 3.25 s."""

PREPARED = [Event(NOW + at, EventKind.PREPARED, f"gpu0{number}") for number, at in ((1, 2.75), (2, 3.25))]
FIRST_LINES = [
    Event(NOW + at, kind, f"gpu0{rank + 1}", rank)
    for kind, times in ((EventKind.RANK_STARTED, (9.9, 9.9)), (EventKind.FIRST_LINE, (10.5, 10.75)))
    for rank, at in enumerate(times)
]


def spans_of(trace: TimedSpan | None) -> dict[str, ReadableSpan]:
    """Return the exported spans by name, those of nodes by node."""
    memory = InMemorySpanExporter()
    assert trace is not None
    assert export(trace, memory)
    return {str((each.attributes or {}).get("pylaunch.node", each.name)): each for each in memory.get_finished_spans()}


def times(span: ReadableSpan) -> tuple[float, float]:
    assert span.start_time is not None
    assert span.end_time is not None
    return round(span.start_time / NANOSECONDS - NOW, 2), round(span.end_time / NANOSECONDS - NOW, 2)


def test_a_start_is_one_trace_with_its_phases_its_nodes_and_its_first_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    made = StartTrace()
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=vision")
    before: list[StartEvent] = [AttemptStarted(PLAN), *PREPARED, RanksReleased(PLAN, STARTED), *FIRST_LINES[:-1]]
    assert [made.of_event(event, NOW + 10 * isinstance(event, RanksReleased)) for event in before] == [None] * 7
    spans = spans_of(made.of_event(FIRST_LINES[-1], NOW + 11))
    assert {name: times(span) for name, span in spans.items()} == {
        "start": (0, 10.75),
        "connect": (2, 2.5),
        "prepare": (2.5, 3.5),
        "gpu01": (2.5, 2.75),
        "gpu02": (2.5, 3.25),
        "preload": (6.75, 9.75),
        "release": (9.75, 10),
        "first line": (9.9, 10.75),
    }
    root = spans.pop("start")
    assert root.attributes is not None
    assert (root.attributes["pylaunch.run"], root.attributes["pylaunch.ranks"]) == (PLAN.run, 2)
    assert dict(root.resource.attributes) == {"service.name": "pylaunch", "team": "vision"}
    assert {span.context.trace_id for span in spans.values()} == {root.context.trace_id}
    parents = {name: span.parent.span_id for name, span in spans.items() if span.parent is not None}
    prepare = spans["prepare"].context.span_id
    assert parents == {name: prepare if name in ("gpu01", "gpu02") else root.context.span_id for name in spans}
    ended = AttemptEnded(PLAN, Outcome(Status.DONE, "", NOW, (), {}), None)
    assert (made.of_event(ended, NOW + 20), made.completed(NOW + 21)) == (None, None)


def test_times_that_a_node_invents_stay_within_the_start() -> None:
    made = StartTrace()
    before: list[StartEvent] = [AttemptStarted(PLAN), RanksReleased(PLAN, STARTED), *FIRST_LINES[:-1]]
    for event in before:
        made.of_event(event, NOW + 10)
    made.of_event(Event(1e300, EventKind.FIRST_LINE, "gpu02", 1), NOW + 11)
    spans = spans_of(made.completed(NOW + 12))
    assert times(spans["first line"]) == (9.9, 12)


def test_a_start_that_is_refused_has_failed_and_shows_the_nodes_that_were_ready() -> None:
    made = StartTrace()
    made.of_event(AttemptStarted(PLAN), NOW)
    made.of_event(PREPARED[0], NOW)
    spans = spans_of(made.completed(NOW + 30))
    assert {name: times(span) for name, span in spans.items()} == {"start": (0, 30), "gpu01": (0, 2.75)}
    assert not spans["start"].status.is_ok


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "", "OTEL_SERVICE_NAME": "x"},
    ],
)
def test_without_a_collector_nothing_observes(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert type(observer()) is RunObserver


@pytest.mark.parametrize("error", [OSError("http://127.0.0.1:4318 refused"), RuntimeError("http://127.0.0.1:4318")])
def test_an_error_of_an_exporter_is_one_line_without_the_address(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_trace: TimedSpan) -> bool:
        raise error

    monkeypatch.setattr("pylaunch.features.traces.export.export", fails)
    tracing = Tracing("OTEL_EXPORTER_OTLP_ENDPOINT")
    tracing.on_event(AttemptStarted(PLAN))
    tracing.at_end(RunEnding(PLAN.run, None))
    assert capsys.readouterr().err.splitlines() == [
        "warning: the trace was not delivered to the collector of OTEL_EXPORTER_OTLP_ENDPOINT: " + type(error).__name__
    ]
