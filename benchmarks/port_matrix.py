"""Measure the network matrix: `pylaunch check` with the probe between all nodes and without it.

    .venv/bin/python benchmarks/port_matrix.py [--nodes 16] [--runs 5]

Needs root, for the lab. Prints medians (and the worst) in seconds, both taken alternately in one sitting.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from lab.lab import Lab
from pylaunch.checks import mesh, suite
from pylaunch.checks.survey import Wanted
from pylaunch.inventory import load_cluster
from pylaunch.transport import interrupts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pylaunch-bench-") as directory:
        inventory = Path(directory) / "cluster.ini"
        with Lab.up("benchmatrix", nodes=arguments.nodes, inventory=inventory):
            measure(inventory, arguments.runs)


def measure(inventory: Path, runs: int) -> None:
    cluster, wanted = load_cluster(inventory, limit=None), Wanted(port=29500)
    first = cluster.hosts[0]
    alone = tuple(each for each in suite.CHECKS if not mesh.READINGS & each.asks(first, wanted).keys())
    interrupts.run(suite.take_survey(cluster, wanted, alone))  # Opens the connections.
    timed: dict[str, list[float]] = {"without": [], "with": []}
    for _ in range(runs):
        for name, checks in (("without", alone), ("with", suite.CHECKS)):
            begun = time.monotonic()
            interrupts.run(suite.take_survey(cluster, wanted, checks))
            timed[name].append(time.monotonic() - begun)
    print(f"{len(cluster.hosts)} nodes{'':34}{'median':>9}{'worst':>9}")
    for name, seconds in timed.items():
        print(f"check {name} the matrix{'':20}{statistics.median(seconds):9.2f}{max(seconds):9.2f}")


if __name__ == "__main__":
    main()
