"""Samples as metrics of prometheus-client, served over HTTP. Importing this needs the extra `metrics`."""

import contextlib
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pylaunch.features.metrics.samples import LAST_ANSWER, OF_NODE, OF_RUN, LiveSamples


class RunCollector(Collector):
    """The metrics of live runs: each scrape reads the latest samples and waits for no node."""

    def __init__(self, live: LiveSamples) -> None:
        self._live = live

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        samples, now = self._live.samples(), time.monotonic()
        for name, text in {"run_ranks": "Ranks of the run by state.", **OF_RUN, **OF_NODE}.items():
            labels = ["run", *(["node"] if name in OF_NODE else ["state"] if name == "run_ranks" else [])]
            gauge = GaugeMetricFamily(f"pylaunch_{name}", text, labels=labels)
            for sample in samples:
                for values, number in sample[name].items():
                    if number is not None:
                        gauge.add_metric(values, max(0.0, now - number) if name == LAST_ANSWER else number)
            yield gauge
        text = "Attempts whose end was recorded since the start, with the kind of the first cause of a failure."
        ends = CounterMetricFamily("pylaunch_attempts_ended", text, labels=("status", "cause"))
        for end, count in sorted(self._live.ends.items()):
            ends.add_metric(end, count)
        yield ends
        text = "Instant at which the records of runs were last read."
        yield GaugeMetricFamily("pylaunch_records_read_timestamp_seconds", text, value=self._live.refreshed_at)


@contextlib.contextmanager
def served(live: LiveSamples, address: str, port: int) -> Iterator[int]:
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
