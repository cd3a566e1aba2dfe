"""Measure `pylaunch check` on lab nodes of this machine, from Enter to the prompt, with open connections.

    .venv/bin/python benchmarks/check_latency.py [--nodes 3] [--runs 5]

Needs root, for the lab. Prints medians (and the worst) in seconds: the whole verb, and the part that asks and judges.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from on_lab import asked, head, lab, pylaunch, row


def main() -> None:
    arguments = asked(__doc__, runs=5)
    with lab(arguments.nodes) as inventory:
        pylaunch("check", "-i", str(inventory))  # Opens the connections.
        measured = [timed(inventory) for _ in range(arguments.runs)]
    head()
    row(f"pylaunch check on {arguments.nodes} nodes, warm", [whole for whole, _ in measured])
    row("of it, probing and judging", [asking for _, asking in measured])


def timed(inventory: Path) -> tuple[float, float]:
    """Return the seconds from Enter to the prompt, and those that the check itself reports."""
    enter = time.monotonic()
    document = pylaunch("check", "-i", str(inventory), "--json")
    return time.monotonic() - enter, float(json.loads(document)["seconds"])


if __name__ == "__main__":
    main()
