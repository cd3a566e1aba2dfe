"""Measure a start, and the end of a run after a failure, on lab nodes of this machine.

    .venv/bin/python benchmarks/start_latency.py [--nodes 3] [--runs 7]

Needs root, for the lab. Prints medians (and the worst) in seconds of: Enter to the last rank exec'd, where nodes carry
the agent (warm), the same without its checks, and where Ansible must bring it first (cold); pdsh to the end of a
Python one-liner on the same nodes in the same turns, over its own connections, its default, and over open shared
ones; the release skew; a killed rank to every node finished. Installs pdsh with apt.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from on_lab import PYLAUNCH, asked, head, lab, need_pdsh, newest_events, pylaunch, row, ssh_config

from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster

KILL_RANK_1 = "[ $RANK = 1 ] && kill -9 $$; sleep 60"


def main() -> None:
    arguments = asked(__doc__, runs=7)
    need_pdsh()
    with lab(arguments.nodes) as inventory:
        measure(inventory, arguments.runs)


def measure(inventory: Path, runs: int) -> None:
    options = ("start", "-i", str(inventory), "--workdir", "/", "--framework", "command")
    start = (*options, "--")
    cluster = load_cluster(inventory)
    config = ssh_config(cluster, inventory.with_name("ssh_config"), shared=False)
    config_shared = ssh_config(cluster, inventory.with_name("ssh_config_shared"), shared=True)
    cold = timed(*start, "true")
    pdsh(cluster, config_shared)
    warm, unchecked, alone, shared = [], [], [], []
    for _ in range(runs):  # In turns, so that what else this machine does falls on all.
        warm.append(timed(*start, "true"))
        unchecked.append(timed(*options, "--skip", "all", "--", "true"))
        alone.append(pdsh(cluster, config))
        shared.append(pdsh(cluster, config_shared))
    stops = [failed(*start, "sh", "-c", KILL_RANK_1) for _ in range(runs)]
    head()
    row("Enter → all ranks exec'd, cold (1)", [cold[0]])
    row("Enter → all ranks exec'd, warm", [each[0] for each in warm])
    row("the same without checks (--skip all)", [each[0] for each in unchecked])
    row("pdsh, a Python one-liner", alone)
    row("the same over open connections", shared)
    row("release skew", [each[1] for each in warm])
    row("rank killed → all nodes finished", stops)


def timed(*arguments: str) -> tuple[float, float]:
    """Return the seconds from Enter to the last rank's exec, and the skew."""
    enter = time.time()
    pylaunch(*arguments)
    events = newest_events()
    last = max(event["time"] for event in events if event["kind"] == "rank_started")
    skew = next(event["seconds"]["skew"] for event in events if "skew" in event["seconds"])
    return last - enter, skew


def pdsh(cluster: Cluster, config: Path) -> float:
    """Return the seconds from Enter to the end of a Python one-liner on every node."""
    words = ("pdsh", "-R", "ssh", "-f", str(len(cluster.names)), "-w", ",".join(cluster.names), "python3 -c 'print(1)'")
    enter = time.time()
    ended = subprocess.run(
        words, env={**os.environ, "PDSH_SSH_ARGS_APPEND": f"-F {config}"}, capture_output=True, text=True, check=True
    )
    if ended.stdout.count(": 1\n") != len(cluster.names):
        raise SystemExit(f"pdsh: not every node answered\n{ended.stdout}{ended.stderr}")
    return time.time() - enter


def failed(*arguments: str) -> float:
    """Return the seconds from the end of the first failing rank to the end of the run on every node."""
    subprocess.run([*PYLAUNCH, *arguments], capture_output=True, check=False)
    events = newest_events()
    first: float = min(event["time"] for event in events if event["kind"] == "rank_ended")
    ended: float = next(event["time"] for event in events if event["kind"] == "ended")
    return ended - first


if __name__ == "__main__":
    main()
