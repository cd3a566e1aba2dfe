"""Live runs as metrics: the exporter watches, and leaves the run alone."""

import os
import re
import signal
import sys
import urllib.request
from collections.abc import Callable

from prometheus_client.parser import text_string_to_metric_families

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended, says
from tests.waiting import wait_until

STEPS = """
import itertools, time
from pylaunch import runtime
for number in itertools.count(1):
    runtime.step(number)
    time.sleep(0.2)
"""


def test_a_live_run_is_served_and_its_end_is_counted(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2")
    start = cluster.start("--node-timeout", "600", "--", sys.executable, "-c", STEPS)
    says(start, "started in")
    (run,) = cluster.outcomes()
    exporter = cluster.begin("metrics", "--listen", "127.0.0.1:0", "--every", "1")
    assert exporter.stderr is not None
    address = re.search(r"http://127\.0\.0\.1:\d+/metrics", exporter.stderr.readline())
    assert address is not None

    def values() -> dict[tuple[str, ...], float]:
        with urllib.request.urlopen(address[0], timeout=60) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            return {
                (each.name, *(each.labels[name] for name in sorted(each.labels))): each.value
                for family in families
                for each in family.samples
            }

    def of_node(name: str) -> list[float | None]:
        return [values().get((f"pylaunch_node_{name}", node, run)) for node in ("n1", "n2")]

    wait_until(lambda: of_node("up") == [1, 1], "both nodes answer")
    wait_until(lambda: values()["pylaunch_run_ranks", run, "running"] == 2, "both ranks run")
    wait_until(lambda: values().get(("pylaunch_run_steps_per_second", run)), "the rate of the steps")
    assert values()["pylaunch_run_step_furthest", run] >= 1
    (agent,) = cluster.nodes["n2"].agents()
    os.kill(agent, signal.SIGSTOP)
    wait_until(
        lambda: of_node("up") == [1, 0], "a node that does not answer is down, and a scrape does not wait for it"
    )
    wait_until(lambda: values()["pylaunch_run_ranks", run, "unknown"] == 1, "its rank is unknown")
    os.kill(agent, signal.SIGCONT)
    wait_until(lambda: of_node("up") == [1, 1], "the node answers again")
    cluster.run("stop", run, code=ExitCode.DONE)
    ended(start)
    wait_until(lambda: values().get(("pylaunch_attempts_ended_total", "", "stopped")) == 1, "the end is counted")
    wait_until(lambda: ("pylaunch_node_up", "n1", run) not in values(), "the run is no longer live")
    exporter.send_signal(signal.SIGINT)
    assert ended(exporter).returncode == ExitCode.DONE
