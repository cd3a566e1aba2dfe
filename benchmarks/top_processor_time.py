"""Measure the share of one core that `pylaunch top` needs for a run on many nodes, without the connections to them.

    .venv/bin/python benchmarks/top_processor_time.py [--nodes 64] [--ranks-per-node 8] [--seconds 60]

Each node reports its load and the steps of its ranks every two seconds, and each rank writes a line a second, as
`status --watch` receives them. The screen of 120 x 40 draws what it draws on a terminal, without the terminal. The
first row has the state alone (the reports without a screen), which `status --watch` keeps, too; the second the screen.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator

from pylaunch.features.top.app import TopApp
from pylaunch.features.top.live_runs import FollowedRuns
from pylaunch.features.top.rows import LiveRun
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.protocol.usage_report import StepMark, Usage
from pylaunch.runs.follow.run_events import LinesWritten, RunEvent, UsageReported
from pylaunch.terminal.views.board import Board

RUN = "7f3a9c01"
GIBIBYTE = 1 << 30


def run_on(nodes: int, ranks_per_node: int) -> LiveRun:
    """Return a run of which nothing is known yet."""
    hosts = tuple(Host(f"gpu{number:03}", f"10.0.0.{number}") for number in range(1, nodes + 1))
    job = JobSpec(("train.py",), Framework.DIRECT, "/w", ranks_per_node=ranks_per_node)
    record = RunRecord(plan_run(Cluster(hosts), job, RUN), "agent", time.time(), (), None)
    return LiveRun(record, Board(record.plan))


def second(run: LiveRun, number: int) -> Iterator[RunEvent]:
    """Yield the reports of one second: those of half of the nodes, and a line of every rank."""
    now = time.time()
    for at, node in enumerate(run.record.plan.nodes):
        host = node.host.name
        if number == 0:
            yield Event(now, EventKind.ATTACHED, host)
        for rank in node.ranks:
            yield LinesWritten(host, f"{rank.rank}.out", f"step {number}/100000 loss {1 / (number + 1):.4f}\n", now)
        if at % 2 == number % 2:
            steps = [StepMark(rank.rank, number, now, 100_000) for rank in node.ranks]
            load = (0.9 + number % 10 / 100, 64 * GIBIBYTE, 80 * GIBIBYTE)
            yield UsageReported(host, Usage(0.3, 90 * GIBIBYTE, 512 * GIBIBYTE, 3e9 + number, 2e9, *load, steps))


async def feed(run: LiveRun, live: FollowedRuns, seconds: int) -> float:
    """Pass on the reports of `seconds` in real time; return the share of one core that this process needed."""
    begun, used = time.monotonic(), time.process_time()
    for number in range(seconds):
        with live.lock:
            for event in second(run, number):
                run.take(event, time.time())
        await asyncio.sleep(max(0.0, begun + number + 1 - time.monotonic()))
    return (time.process_time() - used) / (time.monotonic() - begun)


async def measured(nodes: int, ranks_per_node: int, seconds: int, *, has_screen: bool) -> float:
    """Return the share of one core."""
    live, run = FollowedRuns(None), run_on(nodes, ranks_per_node)
    live.by_id[RUN] = run
    if not has_screen:
        return await feed(run, live, seconds)
    app = TopApp(live, lambda _: None)
    async with app.run_test(size=(120, 40)):
        return await feed(run, live, seconds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--ranks-per-node", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=60)
    flags = parser.parse_args()
    print(f"{flags.nodes} nodes, {flags.ranks_per_node} ranks on each, {flags.seconds} s")
    for name, has_screen in (("state alone", False), ("with the screen", True)):
        share = asyncio.run(measured(flags.nodes, flags.ranks_per_node, flags.seconds, has_screen=has_screen))
        print(f"{name:16} {share:.1%} of one core")


if __name__ == "__main__":
    main()
