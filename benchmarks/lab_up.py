"""Measure a lab: up, down, and (with --image) building its image. Needs root.

python benchmarks/lab_up.py [--nodes 3] [--runs 5] [--image]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab import locks, spec
from lab.images import image
from pylaunch.transport import process


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that `action` takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def lab(*arguments: str) -> None:
    """Run `python -m lab …` in a new process."""
    process.run((sys.executable, "-P", "-m", "lab", *arguments)).checked()


def row(what: str, seconds: list[float]) -> str:
    """Print one line of the table."""
    return f"{what:<24}{statistics.median(seconds):>8.2f}{min(seconds):>8.2f}{max(seconds):>8.2f}{len(seconds):>6}"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--image", action="store_true", help="also build the image, once, beside the one in use")
    asked = parser.parse_args()
    name = f"bench-{os.getpid()}"

    rows = []
    image.ready_image(lambda line: None)
    if asked.image:
        recipe = image.controller_recipe()
        aside = Path(spec.IMAGES, f"bench-{os.getpid()}")
        with locks.changing("image"):
            rows.append(row("image build", [timed(lambda: image.build(recipe, aside, lambda line: None))]))
        process.run(("rm", "-rf", "--one-file-system", "--", str(aside))).checked()
    up, down = [], []
    for _ in range(asked.runs):
        up.append(timed(lambda: lab("up", "--name", name, "--nodes", str(asked.nodes))))
        down.append(timed(lambda: lab("down", "--name", name)))
    rows += [row(f"up, {asked.nodes} nodes", up), row(f"down, {asked.nodes} nodes", down)]
    print(f"{'seconds':<24}{'median':>8}{'least':>8}{'most':>8}{'runs':>6}", *rows, sep="\n")


if __name__ == "__main__":
    main()
