"""Measure how the cost of a start for the controller and for slurmctld grows with the nodes of a Slurm job.

    .venv/bin/python benchmarks/growth_slurm.py [--nodes 3,8,16] [--runs 3] [--model 64,256,1000]

Needs root, for the lab: one of the largest size. Each row is an allocation of so many nodes, in which `pylaunch start`
and srun of the same command alternate. A row has medians: seconds from Enter to the prompt; processor seconds of
pylaunch and its srun processes, and of slurmctld; the most open descriptors of pylaunch, srun processes, and MiB of
memory of pylaunch and of all srun processes with slurmctld. Below, a line through the rows and its values for larger
jobs. The nodes share the processors of this machine, so the seconds from Enter to the prompt are theirs, too. The last
tables have the steps that slurmctld created for one start, and the seconds of each phase of `start`.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from pathlib import Path

from growth import HEAD, Cost, called, line, start_seconds, table
from slurm_start import allocation, slurm_lab

from lab.lab import Lab

START = ("start", "--framework", "command", "--workdir", "/", "--", "true")
_STEPS = re.compile(r"REQUEST_JOB_STEP_CREATE\s*\(\s*\d+\)\s*count:(\d+)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="3,8,16")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--model", default="64,256,1000")
    arguments = parser.parse_args()
    sizes, model = ([int(each) for each in text.split(",")] for text in (arguments.nodes, arguments.model))
    costs: dict[int, Cost] = {}
    plain: dict[int, float] = {}
    steps: dict[int, float] = {}
    phases: dict[int, dict[str, float]] = {}
    with slurm_lab(max(sizes)) as lab:
        for size in sizes:
            with allocation(lab, size) as job:
                costs[size], plain[size], steps[size], phases[size] = measured(lab, job, size, arguments.runs)
    head = [name.replace("shared", "slurmctld").replace("ssh", "srun") for name in HEAD]
    table(" start nodes", head, costs, model)
    names = list(phases[min(sizes)])
    print("\n start phases" + "".join(f"{name:>14}" for name in (*names, "steps", "plain srun")))
    for size in sizes:
        line(str(size), [*(phases[size][name] for name in names), steps[size], plain[size]], digits=3)
    print(f"\nprocessors: {os.cpu_count()}, load average at the end: {os.getloadavg()[0]:.1f}")


def measured(lab: Lab, job: str, size: int, runs: int) -> tuple[Cost, float, float, dict[str, float]]:
    """Return medians: the cost of a start, the seconds of srun, the steps of a start, the seconds of its phases."""
    os.environ["SLURM_JOB_ID"] = job
    costs: list[Cost] = []
    plain: list[float] = []
    steps: list[int] = []
    starts: list[dict[str, float]] = []
    for turn in range(runs + 1):
        before = created_steps(lab)
        cost = called(START, lambda: controllers(lab))
        if turn:  # The first one installs the agent.
            costs.append(cost)
            steps.append(created_steps(lab) - before)
            starts.append({**start_seconds()})
            plain.append(srun(job, size))
    del os.environ["SLURM_JOB_ID"]
    phases = {name: statistics.median(each[name] for each in starts) for name in starts[0]}
    median = Cost(*map(statistics.median, zip(*map(astuple, costs), strict=True)))
    return median, statistics.median(plain), statistics.median(steps), phases


def srun(job: str, size: int) -> float:
    """Return the seconds of srun of the same command."""
    words: Sequence[str] = ("srun", f"--jobid={job}", f"--nodes={size}", "--ntasks-per-node=1", "true")
    began = time.monotonic()
    subprocess.run(words, check=True, capture_output=True)
    return time.monotonic() - began


def created_steps(lab: Lab) -> int:
    """Return the number of steps that slurmctld was asked to create."""
    found = _STEPS.search(lab["n1"].run("sdiag").stdout)
    return int(found[1]) if found is not None else 0


def controllers(lab: Lab) -> Iterator[int]:
    """Yield the process of slurmctld of `lab`."""
    network = Path(f"/proc/{lab['n1'].leader}/ns/net").readlink()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "comm").read_text() == "slurmctld\n" and (path / "ns/net").readlink() == network:
                yield int(path.name)
        except OSError:
            continue


if __name__ == "__main__":
    main()
