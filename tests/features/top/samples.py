"""Runs in the states that `pylaunch top` shows."""

from pylaunch.base.dataclass import replace
from pylaunch.features.top.rows import LiveRun
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec, RolePart
from pylaunch.model.plan import plan_run
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.protocol.usage_report import StepMark, Usage
from pylaunch.runs.follow.run_events import LinesWritten, UsageReported
from pylaunch.terminal.views.board import Board

GIBIBYTE = 1 << 30
CREATED = 900.0


def live_run(run: str = "7f3a9c01", nodes: int = 2, *, ranks: int = 2, part: RolePart | None = None) -> LiveRun:
    """A run that its nodes have not reported yet."""
    hosts = tuple(Host(f"gpu{number:02}", f"10.0.0.{number}") for number in range(1, nodes + 1))
    job = JobSpec(("/w/train.py", "--lr", "3"), Framework.TORCHRUN, "/w", ranks_per_node=ranks, part=part)
    record = RunRecord(plan_run(Cluster(hosts), job, run), "agent", CREATED, (), None)
    return LiveRun(record, Board(record.plan))


def usage(run: LiveRun, host: str, step: int, marked: float, total: int = 1000) -> UsageReported:
    """The report of a host all of whose ranks are at `step`."""
    node = next(node for node in run.record.plan.nodes if node.host.name == host)
    steps = [StepMark(rank.rank, step, marked, total) for rank in node.ranks]
    load = (0.97, 64 * GIBIBYTE, 80 * GIBIBYTE)
    return UsageReported(host, Usage(0.31, 90 * GIBIBYTE, 512 * GIBIBYTE, 3e9, 2e9, *load, steps))


def report_all(run: LiveRun, step: int, now: float) -> None:
    """All hosts report, all ranks are at `step`."""
    for node in run.record.plan.nodes:
        if not run.board.started_at:
            run.take(Event(now, EventKind.ATTACHED, node.host.name), now)
        run.take(usage(run, node.host.name, step, now), now)


def training(run: LiveRun, now: float, *, seconds: int = 60) -> LiveRun:
    """Let `run` train at two steps a second until `now`."""
    for number in range(0, seconds + 1, 2):
        report_all(run, 2 * number, now - seconds + number)
    return run


def writes(run: LiveRun, rank: int, text: str, now: float) -> None:
    """Let a rank write a line."""
    host = run.record.plan.node_of_rank(rank).host.name
    run.take(LinesWritten(host, f"{rank}.out", f"{text}\n", now), now)


def hangs(run: LiveRun, text: str, now: float) -> None:
    """Let the hang watcher of its controller record a finding."""
    run.record = replace(run.record, events=(Event(now, EventKind.HANG, text=text),))
