"""Check a cluster and run a job on it from Python: python examples/from_python.py cluster.ini -- hostname

Exits with 0 when the run is done. Ctrl-C stops the run.
"""

from __future__ import annotations

import sys

from pylaunch.api import Cluster, Framework, Job, Severity, Status, check, load_cluster, start


def run_everywhere(cluster: Cluster, command: tuple[str, ...]) -> int:
    """Run `command` once on every host and print its output."""
    for finding in check(cluster).findings:
        if finding.severity is Severity.FAIL:
            print(f"{', '.join(finding.hosts)}: {finding.text}", file=sys.stderr)

    run = start(cluster, Job(command, Framework.COMMAND, workdir="/", ranks_per_node=1))
    try:
        outcome = run.wait()
    except KeyboardInterrupt:
        outcome = run.stop().outcome

    for line in run.logs():
        print(f"{line.host}:{line.rank} | {line.text}")
    print(f"run {run.id} {outcome.status.value}: {outcome.reason}", file=sys.stderr)
    return 0 if outcome.status is Status.DONE else 1


if __name__ == "__main__":
    inventory, words = sys.argv[1], sys.argv[2:]
    sys.exit(run_everywhere(load_cluster(inventory), tuple(words[1:] if words[:1] == ["--"] else words)))
