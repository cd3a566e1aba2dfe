"""Measure a start inside an allocation of Slurm beside srun of the same command, phase by phase, on lab nodes.

    .venv/bin/python benchmarks/slurm_phases.py [--nodes 3] [--runs 50]

Needs root, for the lab. In turns, in one allocation: `pylaunch start`, the same without checks, and srun, each from
Enter to the time at which the last rank printed. Prints quantiles of these, of their ratio to srun in the same turn and
of the release skew of both starts (100), and the medians of the phases of `start`: when each began and how long it
took.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

ENTERED = float(os.environ.get("PYLAUNCH_BENCH_ENTERED", "0"))
MARKS = "PYLAUNCH_BENCH_MARKS"
"""Names the file to which this program, as the controller of a start, writes its phases."""

ASKING = (
    ("pylaunch.transport.slurm.commands", "nodes_of", "scontrol show node (beside the other imports)"),
    ("pylaunch.transport.slurm.commands", "job_details", "scontrol show job (beside it)"),
    ("pylaunch.features.slurm.allocation", "start_daemons", "begin the step of the agents"),
)
PHASES = (
    ("pylaunch.cli.planning", "plan_start", "plan"),
    ("pylaunch.runs.start", "begin", "record"),
    ("pylaunch.runs.prepare.session.Session", "_connect", "connect to the agents"),
    ("pylaunch.runs.prepare.session.Session", "_prepare", "prepare the nodes"),
    ("pylaunch.runs.prepare.session", "try_connections", "connections between the nodes"),
    ("pylaunch.runs.start_checks.ChecksAtStart", "_ask", "questions of the checks (beside the others)"),
    ("pylaunch.runs.start_checks.ChecksAtStart", "conclude", "wait for the checks, judge"),
    ("pylaunch.runs.prepare.session.Session", "_release", "release"),
)
"""Functions of the controller whose calls are phases, those before all modules are imported first: module or class,
function, and the name of the phase."""


def main() -> None:
    from on_lab import asked  # noqa: PLC0415 -- the controller of a start imports nothing of this
    from slurm_start import DATE, START, allocation, last_date, newest_events, slurm_lab  # noqa: PLC0415

    from pylaunch.model.hostset import fold  # noqa: PLC0415

    arguments = asked(__doc__, runs=50)
    start = (sys.executable, __file__, "start", *START)
    ours: list[float] = []
    unchecked: list[float] = []
    theirs: list[float] = []
    skews: list[float] = []
    phases: list[dict[str, tuple[float, float]]] = []
    names = fold(f"n{each + 1}" for each in range(arguments.nodes))
    with slurm_lab(arguments.nodes) as lab, allocation(lab, arguments.nodes) as job:

        def timed(*words: str) -> tuple[float, dict[str, tuple[float, float]]]:
            with tempfile.NamedTemporaryFile("r") as marks:
                entered = time.time()
                environment = {
                    **os.environ, "SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": names, MARKS: marks.name,
                    "PYLAUNCH_BENCH_ENTERED": str(entered),
                }  # fmt: skip
                ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
                return last_date(ended.stdout) - entered, json.loads(marks.read() or "{}")

        def skew() -> float:
            return float(next(event["seconds"]["skew"] for event in newest_events() if "skew" in event["seconds"]))

        for turn in range(arguments.runs + 1):
            seconds, found = timed(*start, "--", *DATE)
            with_checks = skew()
            without, _ = timed(*start, "--no-check", "--", *DATE)
            plain, _ = timed("srun", f"--jobid={job}", f"--nodes={arguments.nodes}", *DATE)
            if turn:  # The first one installs the agent.
                ours.append(seconds)
                unchecked.append(without)
                theirs.append(plain)
                phases.append(found)
                skews += [with_checks, skew()]
    quantiles("Enter → last rank prints, seconds", ours)
    quantiles("the same without checks (--no-check)", unchecked)
    quantiles("srun: Enter → last task prints", theirs)
    quantiles("start / srun of the same turn", [a / b for a, b in zip(ours, theirs, strict=True)])
    quantiles("release skew of both, seconds", skews)
    print(f"\n{'phase, milliseconds':46}{'begins at':>12}{'takes':>9}")
    for name in phases[0]:
        begins, takes = (statistics.median(each[name][part] for each in phases if name in each) for part in (0, 1))
        print(f"{name:46}{1000 * begins:12.0f}{1000 * takes:9.0f}")
    print(f"\nprocessors: {os.cpu_count()}, load average at the end: {os.getloadavg()[0]:.1f}")


def quantiles(name: str, values: Sequence[float]) -> None:
    """Print the median, the 90th and the 99th percentile, and the worst of `values`."""
    ordered = sorted(values)
    at = [ordered[min(len(ordered) - 1, int(part * len(ordered)))] for part in (0.5, 0.9, 0.99)]
    shown = "".join(f"  {label} {value:8.3f}" for label, value in zip(("p50", "p90", "p99"), at, strict=True))
    print(f"{name:46}{shown}  max {ordered[-1]:8.3f}")


def controller() -> int:
    """Run the command line of this program as pylaunch, and write the phases of the start to the file of MARKS."""
    began = time.time()
    from pylaunch.cli import main as command_line  # noqa: PLC0415 -- the time of the imports is measured
    from pylaunch.cli.commands.run import start  # noqa: PLC0415

    found = {"Python": (0.0, began - ENTERED), "imports to parse the flags": (began - ENTERED, time.time() - began)}
    for place, function, name in ASKING:
        mark(place, function, name, found)
    imported = start.imported

    def marked(name: str) -> ModuleType:
        began = time.time()
        module = imported(name)
        found["other imports"] = (began - ENTERED, time.time() - began)
        for place, function, phase in PHASES:
            mark(place, function, phase, found)
        return module

    start.imported = marked
    code = command_line.run(sys.argv[1:])
    Path(os.environ[MARKS]).write_text(json.dumps(found))
    return code


def mark(place: str, function: str, name: str, found: dict[str, tuple[float, float]]) -> None:
    """Let each call of `function` note when it begins, since Enter, and how long it takes."""
    module, _, owner = place.rpartition(".")
    holder = getattr(sys.modules[module], owner) if owner[0].isupper() else sys.modules[place]
    wrapped: Callable[..., Any] = getattr(holder, function)

    def note(began: float) -> None:
        found[name] = (began - ENTERED, time.time() - began)

    @wraps(wrapped)
    def called(*words: Any, **named: Any) -> Any:
        began = time.time()
        try:
            return wrapped(*words, **named)
        finally:
            note(began)

    @wraps(wrapped)
    async def awaited(*words: Any, **named: Any) -> Any:
        began = time.time()
        try:
            return await wrapped(*words, **named)
        finally:
            note(began)

    setattr(holder, function, awaited if asyncio.iscoroutinefunction(wrapped) else called)


if __name__ == "__main__":
    if MARKS in os.environ:
        sys.exit(controller())
    main()
