"""Measure a provisioning that has nothing to change.

    python benchmarks/provision_noop.py -i cluster.ini [--limit n1,n2] [--runs 7] [--ansible-runs 3]

Measured in turn on the same hosts, which must be provisioned already:
`pylaunch provision`; a Python one-liner piped to every host at once over the same SSH connections, which no asking can
beat; the same playbook by ansible-playbook.
Prints one JSON object: wall times, and the processor time that the controller itself took, which is what grows with the
number of hosts where each brings processors of its own (lab nodes share the controller's).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.transport import process
from pylaunch.transport.collection import assemble
from pylaunch.transport.connections import connector_of

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent


def command(argv: list[str], env: dict[str, str]) -> Callable[[], None]:
    """Return a function that runs a command, which must succeed."""

    def run() -> None:
        subprocess.run(
            argv, env={**os.environ, **env}, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    return run


def one_liner(cluster: Cluster) -> Callable[[], None]:
    """Return a function that runs `print(1)` in the Python of every host at once."""

    def run() -> None:
        with ThreadPoolExecutor(max_workers=len(cluster.hosts)) as pool:
            connectors = [connector_of(host, cluster.known_hosts) for host in cluster.hosts]
            argvs = [connector.argv((connector.host.agent_python, "-I", "-")) for connector in connectors]
            for ended in pool.map(lambda argv: process.run(argv, stdin=b"print(1)\n"), argvs):
                ended.checked()

    return run


def measured(run: Callable[[], None], times: int) -> dict[str, object]:
    """Return wall times and the controller's processor times, after a warm-up run."""
    run()
    taken, worked = [], []
    for _ in range(times):
        started, before = time.monotonic(), controller_s()
        run()
        taken.append(time.monotonic() - started)
        worked.append(controller_s() - before)
    return {
        "median_s": round(statistics.median(taken), 2),
        "runs_s": [round(each, 2) for each in sorted(taken)],
        "controller_cpu_s": round(statistics.median(worked), 2),
    }


def controller_s() -> float:
    """Return the processor seconds of this process and its ended children, without processes on nodes."""
    of = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in of)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-i", "--inventory", type=Path, required=True)
    parser.add_argument("--limit", help="only these hosts, to see how the time grows with their number")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--ansible-runs", type=int, default=3, help="0 leaves it out: it takes minutes on many hosts")
    options = parser.parse_args()
    inventory = options.inventory.resolve()
    cluster = load_cluster(inventory, limit=options.limit)
    limit = ["--limit", options.limit] if options.limit else []
    collections = Path(tempfile.mkdtemp(prefix="pylaunch-collections-"))
    assemble(ROOT, collections)
    ansible_environment = {
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_FORKS": str(len(cluster.hosts)),
        "ANSIBLE_SSH_COMMON_ARGS": f"-o UserKnownHostsFile={cluster.known_hosts}",
    }
    ours = command([str(BIN / "pylaunch"), "provision", "-i", str(inventory), *limit], {})
    names = ",".join(cluster.names)
    words = [str(BIN / "ansible-playbook"), "-i", str(inventory), "-l", names, "pylaunch.cluster.site"]
    ansible = command(words, ansible_environment)
    report: dict[str, object] = {
        "hosts": len(cluster.hosts),
        "pylaunch_provision": measured(ours, options.runs),
        "piped_one_liner": measured(one_liner(cluster), options.runs),
    }
    if options.ansible_runs:
        report["ansible_playbook"] = measured(ansible, options.ansible_runs)
    report |= {"load_1min": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
