"""Profile a start, a check and a provisioning without changes: the phases on the controller and on one node.

    .venv/bin/python benchmarks/profile_phases.py [--runs 7] [--python /usr/bin/python3]

The node is a directory of this machine and has no SSH, so that no root and no lab are needed. Everything is measured in
turns. Prints medians in milliseconds: elapsed and processor time of each program, and the elapsed time of each phase of
a start and of each reader. Readers run at once, so their times overlap; most of the slow ones wait for a program.
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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pylaunch.agent.probe import runtime
from pylaunch.checks import suite
from pylaunch.checks.start_table import AtStart, at_start
from pylaunch.checks.survey import Wanted
from pylaunch.inventory import load_cluster
from pylaunch.probe import program
from pylaunch.provision import state
from pylaunch.provision.desired import Content, render
from pylaunch.provision.observed.probe import readers_asked
from pylaunch.runs.prepare.archive import build
from pylaunch.store import content

CLUSTER = """\
[cluster]
n1 pylaunch_node_root={directory}/root pylaunch_agent_python={python}

[cluster:vars]
ansible_connection=local
ansible_host=127.0.0.1
interface=lo
"""


@dataclass
class Samples:
    """Times of one program, in milliseconds."""

    elapsed: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def measure(self, argv: list[str], stdin: bytes) -> bytes:
        """Run a program, which must succeed; return its stdout."""
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        ended = subprocess.run(argv, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.elapsed.append(1000 * (time.monotonic() - began))
        self.processor.append(1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
        return ended.stdout


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--python", default="/usr/bin/python3", help="interpreter of the node")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pylaunch-bench-") as made:
        directory = Path(made)
        os.environ["XDG_STATE_HOME"] = made
        inventory = directory / "cluster.ini"
        inventory.write_text(CLUSTER.format(directory=directory, python=asked.python))
        archive = directory / "agent.pyz"
        archive.write_bytes(build().data)
        profile(inventory, archive, asked.python, asked.runs)


def profile(inventory: Path, archive: Path, python: str, runs: int) -> None:
    controller = [sys.executable, "-m", "pylaunch"]
    start = [*controller, "start", "-i", str(inventory), "--framework", "command", "--workdir", "/"]
    imported = [sys.executable, "-c", "from pylaunch.cli.commands.run import start"]
    agent = [python, "-I", "-S", str(archive)]
    programs: dict[str, tuple[list[str], bytes]] = {
        "controller: Python": ([sys.executable, "-c", ""], b""),
        "controller: Python and imports of a start": (imported, b""),
        "controller: start --dry-run": ([*start, "--dry-run", "--", "true"], b""),
        "controller and node: start of a job without work": ([*start, "--", "true"], b""),
        "controller and node: check": ([*controller, "check", "-i", str(inventory)], b""),
        "node: Python": ([python, "-I", "-S", "-c", ""], b""),
        "node: agent": ([*agent, "hello", "--root", str(archive.parent / "root")], b""),
        "node: rank entry of torchrun, until it connects": ([*agent, "rank"], b""),
    }
    scripts = {"start": start_questions(inventory), "provision": provision_questions(inventory)}
    for verb, questions in scripts.items():
        loads = program.asking(questions, runtime.main, {})
        programs[f"node: probe of {verb}: Python and modules"] = ([python, *program.FROM_STDIN], loads)
        programs[f"node: probe of {verb}"] = ([python, *program.FROM_STDIN], program.probe(questions))
    samples = {name: Samples() for name in programs}
    readers: dict[str, dict[str, list[float]]] = {verb: {} for verb in scripts}
    phases: dict[str, list[float]] = {}
    for turn in range(runs + 1):
        for name, (argv, stdin) in programs.items():
            found = samples[name] if turn > 0 else Samples()  # The first turn compiles and fills caches.
            answer = taken(found, argv, stdin, fails=name.startswith("node: rank entry"))
            verb = name.removeprefix("node: probe of ")
            if turn > 0 and verb in readers:
                for reader, reading in json.loads(answer)["readings"].items():
                    readers[verb].setdefault(reader, []).append(1000 * reading["seconds"])
        if turn > 0:
            for phase, seconds in last_start().items():
                phases.setdefault(phase, []).append(1000 * seconds)
    table("program, ms", ("elapsed", "processor"), {k: (s.elapsed, s.processor) for k, s in samples.items()})
    table("phase of a start, ms", ("elapsed",), {name: (each,) for name, each in phases.items()})
    for verb, found_readers in readers.items():
        slowest = sorted(found_readers.items(), key=lambda each: -statistics.median(each[1]))[:10]
        table(f"reader of {verb}, ms", ("elapsed",), {name: (each,) for name, each in slowest})


def taken(samples: Samples, argv: list[str], stdin: bytes, *, fails: bool) -> bytes:
    """Measure one program; the rank entry fails, because no agent waits for it."""
    words = ["sh", "-c", '"$@" || true', "sh", *argv] if fails else argv
    return samples.measure(words, stdin)


def start_questions(inventory: Path) -> Mapping[str, Any]:
    """Return the questions of a start to its only host."""
    cluster = load_cluster(inventory)
    checks = [check for check in suite.CHECKS if at_start(check) is AtStart.ASKED]
    return suite.questions_for(cluster.hosts[0], Wanted(workdir="/"), checks)


def provision_questions(inventory: Path) -> Mapping[str, Any]:
    """Return the questions with which a provisioning finds out that nothing has changed."""
    variables = {"pylaunch_project_directory": str(inventory.parent)}
    roles = Content(content.playbook("site"), content.roles_directory())
    desired = render(roles, load_cluster(inventory), extra_vars=variables)
    (states,) = desired.hosts.values()
    return readers_asked(state.questions(states))


def last_start() -> dict[str, float]:
    """Return the seconds of each phase of the last start."""
    plans = Path(os.environ["XDG_STATE_HOME"]).glob("pylaunch/runs/*/plan.json")
    run = max(plans, key=lambda path: path.stat().st_mtime).parent.name
    words = [sys.executable, "-m", "pylaunch", "status", run, "--json"]
    status = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    seconds: dict[str, float] = status["start_seconds"]
    return seconds


def table(name: str, columns: tuple[str, ...], rows: Mapping[str, tuple[list[float], ...]]) -> None:
    """Print medians."""
    print(f"\n{name:56}" + "".join(f"{column:>11}" for column in columns))
    for row, found in rows.items():
        print(f"{row:56}" + "".join(f"{statistics.median(each):11.1f}" for each in found))


if __name__ == "__main__":
    main()
