"""Measure a power loss: seconds until a spare runs in place of the lost node.

    .venv/bin/python benchmarks/spare_swap.py [--nodes 3] [--runs 5]

Needs root, for the lab. The last node is the spare; node 0, where the ranks meet, is the one that is switched off. The
ranks are shell scripts, so neither imports nor checkpoints are in it. Prints seconds from the power loss.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from on_lab import PYLAUNCH, asked, head, row

from lab.lab import Lab
from lab.node_faults.faults import Kill, inject

SCRIPT = "echo up; [ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec sleep 600; exit 0"


def main() -> None:
    arguments = asked(__doc__, runs=5)
    lost, again = [], []
    with Lab.up(f"bench{os.getpid()}", nodes=arguments.nodes) as lab, tempfile.TemporaryDirectory() as state:
        os.environ.update(lab.environment)
        os.environ["XDG_STATE_HOME"] = state
        for _ in range(arguments.runs):
            first, second = swapped(lab, Path(state))
            lost.append(first)
            again.append(second)
    head()
    row("power lost → the node counts as lost", lost)
    row("power lost → all ranks of the next attempt run", again)


def swapped(lab: Lab, state: Path) -> tuple[float, float]:
    """Return the seconds from the power loss to the stop order, and to the last rank's exec in the next attempt."""
    options = ("--workdir", "/", "--framework", "command", "--spares", "1", "--max-restarts", "1")
    words = ("start", "-i", str(lab.inventory), *options, "--", "sh", "-c", SCRIPT)
    nodes = list(lab)
    with running(*words) as started:
        assert started.stdout is not None
        for _ in nodes[1:]:
            started.stdout.readline()
        with inject(nodes[0], Kill()):
            off = time.time()
            if started.wait(timeout=120) != 0:
                raise SystemExit("the run did not continue")
    plans = (state / "pylaunch" / "runs").glob("*/plan.json")
    first, second = sorted(plans, key=lambda path: path.stat().st_mtime)[-2:]
    stopped = next(event["time"] for event in events(first) if event["kind"] == "stop_asked")
    started_again = max(event["time"] for event in events(second) if event["kind"] == "rank_started")
    return stopped - off, started_again - off


@contextlib.contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([*PYLAUNCH, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def events(plan: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in plan.with_name("events.jsonl").read_text().splitlines()]


if __name__ == "__main__":
    main()
