"""Measure starts on the nodes of a Slurm job, and the ends of runs there, on lab nodes of this machine.

    .venv/bin/python benchmarks/slurm_start.py [--nodes 3] [--runs 7]

Needs root, for the lab. Prints medians (and the worst) in seconds of: the grant of the nodes, as slurmctld logs it, to
the last rank's first line, for `pylaunch start --scheduler slurm` with and without checks; to the last task's first
line, for a job script with plain `srun` of the same command; the same inside an existing allocation, from Enter; the
release skew; scancel to the end of the last rank and to the end of the job; a killed rank to every node finished.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from on_lab import PYLAUNCH, asked, head, row

from lab import lab as labs
from lab.lab import Lab, Request

KILL_RANK_1 = "[ $RANK = 1 ] && kill -9 $$; sleep 60"
DATE = ("date", "+%s.%N")
START = ("--workdir", "/", "--framework", "command")
OUTPUT = "/tmp/plain-srun"
POLL_S = 0.02


def main() -> None:
    arguments = asked(__doc__, runs=7)
    with slurm_lab(arguments.nodes) as lab:
        measure(lab, arguments.nodes, arguments.runs)


@contextlib.contextmanager
def slurm_lab(nodes: int) -> Iterator[Lab]:
    """Yield a lab with Slurm, whose commands lead PATH; records of runs stay in a directory of their own."""
    with (
        tempfile.TemporaryDirectory(prefix="pylaunch-bench-") as directory,
        labs.start(Request(f"bench{os.getpid()}", nodes, addition="slurm"), lambda line: None) as lab,
    ):
        os.environ |= {**lab.environment, "XDG_STATE_HOME": directory}
        yield lab


def measure(lab: Lab, nodes: int, runs: int) -> None:
    submit = ("start", "--scheduler", "slurm", "--nodes", str(nodes), *START)
    pylaunch(*submit, "--", *DATE)  # Installs the agent.
    plain(lab, nodes)
    ours, unchecked, theirs, inside, inside_theirs = [], [], [], [], []
    for _ in range(runs):  # In turns, so that what else this machine does falls on all.
        ours.append(since_grant(lab, *submit, "--", *DATE))
        unchecked.append(since_grant(lab, *submit, "--skip", "all", "--", *DATE))
        theirs.append(plain(lab, nodes))
    with allocation(lab, nodes) as job:
        for _ in range(runs):
            inside.append(since_enter(*PYLAUNCH, "start", *START, "--", *DATE, env={"SLURM_JOB_ID": job}))
            inside_theirs.append(since_enter("srun", f"--jobid={job}", f"--nodes={nodes}", *DATE))
    skews = [skew for _, skew in ours]
    cancelled = [cancel(lab, *submit, "--detach", "--", "sleep", "300") for _ in range(runs)]
    stops = [failed(*submit, "--", "sh", "-c", KILL_RANK_1) for _ in range(runs)]
    head()
    row("granted → last rank's first line", [each for each, _ in ours])
    row("the same without checks (--skip all)", [each for each, _ in unchecked])
    row("granted → last task's first line, srun in a job script", theirs)
    row("in an allocation: Enter → last rank's first line", inside)
    row("in an allocation: the same with srun", inside_theirs)
    row("release skew", skews)
    row("scancel → last rank ended", [each for each, _ in cancelled])
    row("scancel → job ended", [each for _, each in cancelled])
    row("rank killed → all nodes finished", stops)


def pylaunch(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run pylaunch to its end."""
    return subprocess.run([*PYLAUNCH, *arguments], check=check, capture_output=True, text=True)


def since_grant(lab: Lab, *arguments: str) -> tuple[float, float]:
    """Return the seconds from the grant to the last rank's first line, and the release skew."""
    ended = pylaunch(*arguments)
    job = next(line.split()[2] for line in ended.stderr.splitlines() if line.startswith("Slurm job "))
    skew = next(event["seconds"]["skew"] for event in newest_events() if "skew" in event["seconds"])
    return last_date(ended.stdout) - granted_at(lab, job), skew


def plain(lab: Lab, nodes: int) -> float:
    """Return the seconds from the grant to the last task's first line, for srun in a job script."""
    words = ("sbatch", "--parsable", f"--nodes={nodes}", "--ntasks-per-node=1", f"--output={OUTPUT}", "--wait")
    script = f"#!/bin/sh\nsrun {' '.join(DATE)}\n"
    ended = subprocess.run(words, input=script, check=True, capture_output=True, text=True)
    job = ended.stdout.split()[0]
    output = next(text for node in lab if (text := node.run("cat", OUTPUT, check=False).stdout))
    for node in lab:
        node.run("rm", "-f", OUTPUT)
    return last_date(output) - granted_at(lab, job)


def since_enter(*words: str, env: dict[str, str] | None = None) -> float:
    """Return the seconds from the start of a command to the last date that it prints."""
    enter = time.time()
    ended = subprocess.run(words, env={**os.environ, **(env or {})}, check=True, capture_output=True, text=True)
    return last_date(ended.stdout) - enter


def last_date(output: str) -> float:
    """Return the last time that ranks or tasks printed."""
    return max(float(found) for found in re.findall(r"\b\d{10}\.\d{9}\b", output))


def granted_at(lab: Lab, job: str) -> float:
    """Return the time at which slurmctld allocated nodes to `job`."""
    for line in lab["n1"].run("cat", "/var/log/slurmctld.log").stdout.splitlines():
        found = re.match(
            rf"\[(\S+)\] sched(?:/backfill)?: (?:Allocate|_start_job: Started|Started) JobId={job}\b", line
        )
        if found is not None:
            return datetime.fromisoformat(found[1] + "+00:00").timestamp()
    raise SystemExit(f"slurmctld has no grant of job {job} in its log")


@contextlib.contextmanager
def allocation(lab: Lab, nodes: int) -> Iterator[str]:
    """Yield the id of a job that holds all nodes."""
    job = lab["n1"].run("salloc", "--no-shell", f"--nodes={nodes}").stderr.split()[-1]
    try:
        yield job
    finally:
        lab["n1"].run("scancel", job)


def cancel(lab: Lab, *arguments: str) -> tuple[float, float]:
    """Return the seconds from scancel to the end of the last rank, and to the end of the job."""
    started = pylaunch(*arguments)
    job = next(line.split()[2] for line in started.stderr.splitlines() if line.startswith("Slurm job "))
    begun = time.time()
    subprocess.run(("scancel", job), check=True)
    waited(lambda: not any(node.run("pgrep", "-x", "sleep", check=False).ok for node in lab))
    ranks = time.time() - begun
    waited(lambda: not lab["n1"].run("squeue", "--noheader", f"--jobs={job}", check=False).stdout.strip())
    return ranks, time.time() - begun


def waited(is_done: Any) -> None:
    """Wait until `is_done()`."""
    while not is_done():
        time.sleep(POLL_S)


def failed(*arguments: str) -> float:
    """Return the seconds from the end of the rank that is killed to the end of all nodes."""
    pylaunch(*arguments, check=False)
    events = newest_events()
    killed = min(event["time"] for event in events if event["kind"] == "rank_ended")
    return float(next(event["time"] for event in events if event["kind"] == "ended") - killed)


def newest_events() -> list[dict[str, Any]]:
    """Return the events of the newest run."""
    runs = Path(os.environ["XDG_STATE_HOME"]) / "pylaunch" / "runs"
    newest = max(runs.iterdir(), key=lambda path: (path / "plan.json").stat().st_mtime_ns)
    return [json.loads(line) for line in (newest / "events.jsonl").read_text().splitlines()]


if __name__ == "__main__":
    main()
