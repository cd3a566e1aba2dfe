"""Measure the first provisioning of bare nodes: pylaunch, and ansible-playbook with pipelining.

    .venv/bin/python benchmarks/provision_first.py [--nodes 3] [--runs 3]

Needs root, for the lab: every measurement gets nodes that were just made. The contenders take turns, with the same
playbook, roles and connections; what packages they fetch comes from the same place. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lab.lab import Lab
from pylaunch.inventory import load_cluster
from pylaunch.transport.collection import assemble

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent


def by_pylaunch(lab: Lab) -> None:
    """Run `pylaunch provision`, which also verifies the result."""
    run([str(BIN / "pylaunch"), "provision", "-i", str(lab.inventory)], lab.environment)


def by_ansible(lab: Lab) -> None:
    """Run the same playbook with ansible-playbook."""
    cluster = load_cluster(lab.inventory)
    with tempfile.TemporaryDirectory() as directory:
        assemble(ROOT, Path(directory))
        settings = {
            "ANSIBLE_COLLECTIONS_PATH": directory,
            "ANSIBLE_PIPELINING": "True",
            "ANSIBLE_FORKS": str(len(cluster.hosts)),
            "ANSIBLE_SSH_COMMON_ARGS": f"-o UserKnownHostsFile={cluster.known_hosts}",
        }
        words = [str(BIN / "ansible-playbook"), "-i", str(lab.inventory), "pylaunch.cluster.site"]
        run(words, {**lab.environment, **settings})


def run(argv: list[str], env: dict[str, str]) -> None:
    subprocess.run(argv, env={**os.environ, **env}, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def seconds(converge: Callable[[Lab], None], nodes: int) -> float:
    """Measure `converge` on fresh nodes."""
    with Lab.up(f"bench{os.getpid()}", nodes=nodes) as lab:
        started = time.monotonic()
        converge(lab)
        return time.monotonic() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    taken: dict[str, list[float]] = {"pylaunch_provision": [], "ansible_playbook": []}
    for _ in range(asked.runs):
        taken["pylaunch_provision"].append(seconds(by_pylaunch, asked.nodes))
        taken["ansible_playbook"].append(seconds(by_ansible, asked.nodes))
    report: dict[str, object] = {
        name: {"median_s": round(statistics.median(each), 1), "runs_s": [round(one, 1) for one in sorted(each)]}
        for name, each in taken.items()
    }
    print(json.dumps({"hosts": asked.nodes, **report, "load_1min": round(os.getloadavg()[0], 1)}, indent=2))


if __name__ == "__main__":
    main()
