"""Samples as metrics of prometheus-client, served over HTTP. Importing this needs the extra `metrics`."""

import contextlib
import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pylaunch.features.metrics.live_runs import LiveRuns
from pylaunch.features.metrics.samples import NodeMetrics, RunMetrics
from pylaunch.protocol.usage_report import Usage

_OF_RUN: tuple[tuple[str, str, Callable[[RunMetrics], float | None]], ...] = (
    ("restarts", "Restarts of the run so far.", lambda run: run.restarts),
    ("started_timestamp_seconds", "Instant at which the ranks of the attempt started.", lambda run: run.started_at),
    ("step_slowest", "Last step of the slowest rank.", lambda run: run.slowest),
    ("step_furthest", "Last step of the furthest rank.", lambda run: run.furthest),
    ("steps_per_second", "Steps per second of the slowest rank in the last minute.", lambda run: run.steps_per_second),
)  # fmt: skip


def _load(value: Callable[[Usage], float | None]) -> Callable[[NodeMetrics, float], float | None]:
    return lambda node, now: None if node.usage is None else value(node.usage)


_OF_NODE: tuple[tuple[str, str, Callable[[NodeMetrics, float], float | None]], ...] = (
    ("up", "1 if the node answers, else 0.", lambda node, now: node.is_up),
    ("last_answer_age_seconds", "Time since the last answer of the node.",
     lambda node, now: None if node.heard_at is None else max(0.0, now - node.heard_at)),
    ("clock_offset_seconds", "Clock of the node minus that of this machine when the connection to it began.",
     lambda node, now: node.clock_offset),
    ("devices", "Devices of the run on the node, as planned.", lambda node, now: node.devices),
    ("cpu_ratio", "Share of all cores in use.", _load(lambda usage: usage.cpu)),
    ("memory_used_bytes", "Memory in use.", _load(lambda usage: usage.memory_used)),
    ("memory_bytes", "Memory of the node.", _load(lambda usage: usage.memory)),
    ("network_receive_bytes_per_second", "Bytes received per second.", _load(lambda usage: usage.received)),
    ("network_transmit_bytes_per_second", "Bytes sent per second.", _load(lambda usage: usage.sent)),
    ("gpu_ratio", "Mean utilization of all GPUs; absent without one.", _load(lambda usage: usage.gpu)),
    ("gpu_memory_used_bytes", "GPU memory in use.",
     _load(lambda usage: None if usage.gpu is None else usage.gpu_memory_used)),
    ("gpu_memory_bytes", "GPU memory of the node.",
     _load(lambda usage: None if usage.gpu is None else usage.gpu_memory)),
)  # fmt: skip


class RunCollector(Collector):
    """The metrics of live runs: each scrape reads the latest samples and waits for no node."""

    def __init__(self, live: LiveRuns) -> None:
        self._live = live

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        samples, now = self._live.samples(), time.monotonic()
        ranks = GaugeMetricFamily("pylaunch_run_ranks", "Ranks of the run by state.", labels=("run", "state"))
        for run in samples:
            for state, count in run.ranks.items():
                ranks.add_metric((run.run, state), count)
        yield ranks
        for name, text, of_run in _OF_RUN:
            gauge = GaugeMetricFamily(f"pylaunch_run_{name}", text, labels=("run",))
            for run in samples:
                if (value := of_run(run)) is not None:
                    gauge.add_metric((run.run,), value)
            yield gauge
        for name, text, of_node in _OF_NODE:
            gauge = GaugeMetricFamily(f"pylaunch_node_{name}", text, labels=("run", "node"))
            for run in samples:
                for node in run.nodes:
                    if (value := of_node(node, now)) is not None:
                        gauge.add_metric((run.run, node.node), value)
            yield gauge
        text = "Attempts whose end was recorded since the start, with the kind of the first cause of a failure."
        ends = CounterMetricFamily("pylaunch_attempts_ended", text, labels=("status", "cause"))
        for labels, count in sorted(self._live.ends.items()):
            ends.add_metric(labels, count)
        yield ends
        text = "Instant at which the records of runs were last read."
        yield GaugeMetricFamily("pylaunch_records_read_timestamp_seconds", text, value=self._live.refreshed_at)


@contextlib.contextmanager
def served(live: LiveRuns, address: str, port: int) -> Iterator[int]:
    """Serve the metrics of `live` for a block, which gets the port. Raises OSError for an address that is in use."""
    registry = CollectorRegistry()
    registry.register(RunCollector(live))
    server, thread = start_http_server(port, address, registry)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
