#!/usr/bin/env python3
"""Print whether the latency stage of `pylaunch bench` shows a delay of 10 us, on lab nodes.

    .venv/bin/python benchmarks/latency_resolution.py [--turns 150] [--delay 10] [--python PATH]

Needs root, for the lab. Ranks on two nodes run the stage in turns, without and with a busy wait of a known length in
rank 1 (delayed_latency/rank.py). The numbers compared are those that `pylaunch bench` prints, from the lines of the
ranks: median and least of a turn in us, with one decimal. The interval is a bootstrap over the turns.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles

from bench_compared import provisioned

import pylaunch.features.bench.ranks as program
from lab.lab import Lab
from pylaunch.features.bench.judgement.measurements import LatencyTimed, Readings

PREFIX = "latency resolution: "
"""As in `delayed_latency/rank.py`."""

RANK = Path(__file__).parent / "delayed_latency" / "rank.py"
RESAMPLES = 10_000
TIMEOUT_S = 1200.0

Turns = dict[tuple[str, str, bool], list[float]]
"""Kind of message, statistic, and whether it was delayed → what bench prints for each turn, in us."""

STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {"median": median, "least": min}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=150)
    parser.add_argument("--delay", type=float, default=10.0, help="microseconds")
    parser.add_argument("--python", type=Path, help="an interpreter with PyTorch that is there already")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pylaunch-bench-") as directory:
        python = asked.python or provisioned(Path(directory))
        code = Path(directory) / "code"
        shutil.copytree(Path(program.__file__).parent, code / "ranks", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(RANK, code)
        with Lab.up(f"bench{os.getpid()}", nodes=2, share=[python.parents[2]]) as lab:
            words = ("--framework", "direct", "--python", str(python), "--sync", str(code))
            job = ("--", RANK.name, str(asked.turns), str(asked.delay))
            ended = lab.pylaunch("start", "-i", str(lab.inventory), *words, *job, timeout_s=TIMEOUT_S)
    if ended.returncode:
        raise SystemExit(ended.stderr)
    show(ended.stdout.splitlines(), asked.delay)


def show(lines: Sequence[str], delay: float) -> None:
    """Print the comparisons of the turns without and with the delay."""
    readings, found, is_delayed = Readings(2), Turns(), False
    for line in (each.partition("| ")[2] for each in lines):
        own = json.loads(line.removeprefix(PREFIX)) if line.startswith(PREFIX) else {}
        is_delayed = own.get("delayed", is_delayed)
        if "clock" in own:
            print(f"smallest step of the clock {own['clock'] * 1e9:.0f} ns, a wait takes {own['waited'] * 1e6:.2f} us")
        taken = readings.take(0, line)
        if isinstance(taken, LatencyTimed):
            for name, statistic in STATISTICS.items():
                found.setdefault((taken.of, name, is_delayed), []).append(round(statistic(taken.seconds) * 1e6, 1))
    for kind, name in dict.fromkeys(key[:2] for key in found):
        compare(f"{kind}, {name}", found[(kind, name, False)], found[(kind, name, True)], delay)


def compare(kind: str, plain: Sequence[float], delayed: Sequence[float], delay: float) -> None:
    """Print the difference of one kind of message, with its uncertainty."""
    differences = [after - before for before, after in zip(plain, delayed, strict=True)]
    low, high = interval(differences)
    near = sum(delay / 2 <= each <= delay * 3 / 2 for each in differences)
    quarters = quantiles(differences, n=4)
    print(f"{kind}: {len(plain)} turns, {median(plain):.1f} us, with {delay:g} us more {median(delayed):.1f} us")
    print(f"  difference {median(differences):.1f} us (95 %: {low:.1f} to {high:.1f}), quartiles {quarters[0]:.1f} and")
    print(f"  {quarters[2]:.1f}; of single turns, {near} within {delay / 2:g} us of {delay:g} us; ", end="")
    print("resolved" if low > 0 and high - low < delay else "not resolved", flush=True)


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median, by bootstrap."""
    chance = random.Random(0)
    medians = sorted(median(chance.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]


if __name__ == "__main__":
    main()
