"""`pylaunch demo`: a run that ends well and one that fails, on this machine."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import click

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ExitCode, RunFailedError
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.render import plan_start
from pylaunch.runs.prepare import launch
from pylaunch.runs.start import StartOptions, start
from pylaunch.store import runs
from pylaunch.terminal import console
from pylaunch.terminal.views.live import RunView
from pylaunch.transport.interrupts import signals

RANKS_PER_NODE = 2
BROKEN = 2


@click.command()
def command() -> int:
    """Run a small job with 2 ranks on each of 2 nodes, then break one rank and show the verdict.

    The nodes are directories of this machine and the ranks plain processes on loopback: no root, no SSH and no PyTorch.
    Takes some seconds and leaves nothing, also no record of its runs.
    """
    with demo_nodes() as nodes:
        console.say(
            "Two nodes on this machine, n1 and n2, are directories; the job fits a line with 2 ranks on each.\n"
        )
        first = _run(nodes, ())
        if first.status is not Status.DONE:
            return _ended_early(first)
        console.say(f"\nAll ranks started together and ended well. Now rank {BROKEN} on n2 fails in the middle.\n")
        second = _run(nodes, ("--break-rank", str(BROKEN)))
        if second.status is not Status.FAILED or second.named is None or second.named.rank != BROKEN:
            return _ended_early(second)
    console.say(
        f"\nThe other ranks failed only because they lost rank {BROKEN}, so the error names rank {BROKEN} alone.\n"
        "Nodes, logs and records of the demo are removed. On your own machines, with nothing but SSH:\n\n"
        "hint: pylaunch init 'gpu[01-04]'\n"
        "      pylaunch start --sync . -- train.py"
    )
    return ExitCode.DONE


def _run(nodes: "DemoNodes", arguments: tuple[str, ...]) -> Outcome:
    console.say(" ".join(("$ pylaunch start --nproc-per-node", str(RANKS_PER_NODE), "--", SCRIPT, *arguments)))
    job = JobSpec((SCRIPT, *arguments), Framework.DIRECT, str(nodes.directory), ranks_per_node=RANKS_PER_NODE)
    with RunView() as view:
        planned = plan_start(nodes.cluster, job, runs.new_run_id(), console.say)
        return start(planned, StartOptions(), view.show, signals)


def _ended_early(outcome: Outcome) -> int:
    """Return the exit code of a demo that was interrupted. Raises RunFailedError for another end than the shown one."""
    if outcome.status is Status.STOPPED:
        return ExitCode.INTERRUPTED
    raise RunFailedError(
        f"the demo ended in another way than it should: {outcome.reason or outcome.status.value}",
        evidence=outcome.evidence,
        hint="a bug report: pylaunch --version, and what is above",
    )


NAMES = ("n1", "n2")
SCRIPT = "train.py"
_OWN = ("XDG_STATE_HOME", "XDG_CACHE_HOME")


@dataclass(frozen=True)
class DemoNodes:
    """The nodes, and the directory in which the job is."""

    cluster: Cluster
    directory: Path


@contextlib.contextmanager
def demo_nodes() -> Iterator[DemoNodes]:
    """Make the nodes and the job in a temporary directory, where records of runs go, too; remove all at the end."""
    with tempfile.TemporaryDirectory(prefix="pylaunch-demo-") as made, _records_in(Path(made) / "records"):
        directory = Path(made)
        job = resources.files("pylaunch.features.demo.ranks") / SCRIPT
        (directory / SCRIPT).write_text(job.read_text(encoding="utf-8"), encoding="utf-8")
        yield DemoNodes(Cluster(tuple(_node(name, directory / name) for name in NAMES)), directory)


def _node(name: str, directory: Path) -> Host:
    """Return a node whose agent is in place, so that it needs no Ansible."""
    agent = launch.build()
    agents = directory / "agents"
    directory.mkdir(mode=0o700)
    agents.mkdir(mode=0o700)
    (agents / f"{agent.version}.pyz").write_bytes(agent.data)
    return Host(
        name, "127.0.0.1", Connection.LOCAL, interface="lo", python=sys.executable, agent_python=sys.executable,
        node_root=str(directory),
    )  # fmt: skip


@contextlib.contextmanager
def _records_in(directory: Path) -> Iterator[None]:
    """Keep records and caches of this process below `directory` during the block."""
    before = {name: os.environ.get(name) for name in _OWN}
    os.environ.update(dict.fromkeys(_OWN, str(directory)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
