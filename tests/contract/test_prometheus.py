"""A real Prometheus, where one is installed, scrapes the metrics and answers the queries of the dashboard."""

import contextlib
import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pylaunch.features.metrics.command import DASHBOARD
from pylaunch.features.metrics.exposition import served
from tests.documented_commands import ROOT, blocks
from tests.features.metrics.test_metrics import Seen
from tests.ports import free_port
from tests.waiting import wait_until

PROGRAM = shutil.which("prometheus")
CONFIGURATION = """\
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs: [{{job_name: pylaunch, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}]
"""

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no program prometheus; on Debian: apt-get install prometheus")


@contextlib.contextmanager
def prometheus(scraped: int, directory: Path) -> Iterator[str]:
    """A Prometheus that scrapes this port; the URL of its API."""
    assert PROGRAM is not None
    (directory / "prometheus.yml").write_text(CONFIGURATION.format(port=scraped))
    address = f"127.0.0.1:{free_port()}"
    words = (f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data")
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen((PROGRAM, *words, f"--web.listen-address={address}"), stdout=log, stderr=log)
    try:
        yield f"http://{address}/api/v1"
    finally:
        process.terminate()
        process.wait(60)


def answer(url: str, **words: str) -> Any:
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(words)}", timeout=60) as response:
        return json.load(response)["data"]


def test_prometheus_answers_each_query_of_the_dashboard_and_reads_the_alerts(tmp_path: Path) -> None:
    live = Seen(1.0)
    live.ends = {("failed", "node-lost"): 2, ("done", ""): 1}
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target["expr"].replace("$run", ".*") for panel in dashboard["panels"] for target in panel["targets"]]
    (alerts,) = (block for block in blocks(ROOT / "docs/guides/metrics.md") if "# expressions of alerting" in block)
    rules = [line.partition("#")[0].strip() for line in alerts.splitlines()[1:]]
    with served(live, "127.0.0.1", 0) as port, prometheus(port, tmp_path) as url:

        def series(query: str) -> list[Any]:
            return list(answer(f"{url}/query", query=query)["result"])

        def has_two_samples() -> bool:
            with contextlib.suppress(OSError):
                return bool(series("increase(pylaunch_attempts_ended_total[1h])"))
            return False

        wait_until(has_two_samples, "two scrapes")
        assert [query for query in queries if not series(query)] == []
        assert answer(f"{url}/label/run/values") == ["7f3a9c01"]
        assert len(rules) == 4
        for rule in rules:
            series(rule)
