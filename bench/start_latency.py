"""How long a start takes and how quickly a failure ends everything, on lab nodes of this machine.

    .venv/bin/python bench/start_latency.py [--nodes 3] [--runs 7]

Needs root, for the lab. Prints medians (and the worst) in seconds of: Enter to the last rank exec'd, where nodes carry
the agent (warm), the same without its checks, and where Ansible must bring it first (cold); the release skew; a killed
rank to every node finished.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from on_lab import PYLAUNCH, asked, head, lab, pylaunch, row

KILL_RANK_1 = "[ $RANK = 1 ] && kill -9 $$; sleep 60"


def main() -> None:
    arguments = asked(__doc__, runs=7)
    with lab(arguments.nodes) as inventory:
        measure(inventory, arguments.runs)


def measure(inventory: Path, runs: int) -> None:
    options = ("start", "-i", str(inventory), "--workdir", "/", "--framework", "command")
    start = (*options, "--")
    cold = timed(*start, "true")
    warm, unchecked = [], []
    for _ in range(runs):  # In turns, so that what else this machine does falls on both.
        warm.append(timed(*start, "true"))
        unchecked.append(timed(*options, "--no-check", "--", "true"))
    stops = [failed(*start, "sh", "-c", KILL_RANK_1) for _ in range(runs)]
    head()
    row("Enter → all ranks exec'd, cold (1)", [cold[0]])
    row("Enter → all ranks exec'd, warm", [each[0] for each in warm])
    row("the same without checks (--no-check)", [each[0] for each in unchecked])
    row("release skew", [each[1] for each in warm])
    row("rank killed → all nodes finished", stops)


def timed(*arguments: str) -> tuple[float, float]:
    """Seconds from Enter to the last rank's exec, and the skew."""
    enter = time.time()
    pylaunch(*arguments)
    events = newest_events()
    last = max(event["time"] for event in events if event["kind"] == "rank_started")
    skew = next(event["seconds"]["skew"] for event in events if "skew" in event["seconds"])
    return last - enter, skew


def failed(*arguments: str) -> float:
    """Seconds from the first failing rank's end to the end of the run on every node."""
    subprocess.run([*PYLAUNCH, *arguments], capture_output=True, check=False)
    events = newest_events()
    first = min(event["time"] for event in events if event["kind"] == "rank_ended")
    return next(event["time"] for event in events if event["kind"] == "ended") - first


def newest_events() -> list[dict[str, Any]]:
    runs = Path(os.environ["XDG_STATE_HOME"]) / "pylaunch" / "runs"
    newest = max(runs.iterdir(), key=lambda path: (path / "plan.json").stat().st_mtime)
    return [json.loads(line) for line in (newest / "events.jsonl").read_text().splitlines()]


if __name__ == "__main__":
    main()
