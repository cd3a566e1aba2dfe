"""`pylaunch demo`: a run that ends well and one that fails, on this machine."""

from __future__ import annotations

import click

from pylaunch.errors import ExitCode, RunFailedError
from pylaunch.features.demo.nodes import SCRIPT, DemoNodes, demo_nodes
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.runs.connect.interruptible import signals
from pylaunch.runs.start import StartOptions, plan_start, start
from pylaunch.terminal import console
from pylaunch.terminal.views.starting import StartView

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


def _run(nodes: DemoNodes, arguments: tuple[str, ...]) -> Outcome:
    console.say(" ".join(("$ pylaunch start --nproc-per-node", str(RANKS_PER_NODE), "--", SCRIPT, *arguments)))
    job = JobSpec((SCRIPT, *arguments), Framework.DIRECT, str(nodes.directory), ranks_per_node=RANKS_PER_NODE)
    with StartView() as view:
        planned = plan_start(nodes.cluster, job, lambda settings, circumstances: [], view.show)
        return start(planned, StartOptions(), view.show, signals)


def _ended_early(outcome: Outcome) -> int:
    """Return the exit code of a demo that was interrupted. Raises RunFailedError for another end than the shown one."""
    if outcome.status is Status.STOPPED:
        return ExitCode.INTERRUPTED
    raise RunFailedError(
        f"the demo ended in another way than it should: {outcome.reason or outcome.status.value}",
        evidence=outcome.evidence,
        hint="pylaunch version --json, for a bug report",
    )
