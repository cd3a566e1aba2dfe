"""Door to the hosts of `check` and `start`: name unhealthy nodes, and leave them out with --avoid-unhealthy."""

import time
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any

import click

from pylaunch.base.dataclass import replace
from pylaunch.checks.check import Check
from pylaunch.checks.survey import Survey
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.features.history import database
from pylaunch.features.history.faults import WINDOW_S, UnhealthyNode, unhealthy
from pylaunch.model.cluster import Cluster
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.hostset import fold
from pylaunch.model.job import JobSpec
from pylaunch.terminal import console
from pylaunch.terminal.doors import HostChoice
from pylaunch.terminal.listing import moment

CHECK = "history.failures"
OPTION = "--avoid-unhealthy"


def options(command: Callable[..., int]) -> Callable[..., int]:
    """Add --avoid-unhealthy."""
    text = "Leave out nodes that failed twice for the same reason of their own within a day (pylaunch help history)."
    return click.option(OPTION, is_flag=True, help=text)(command)


def choice(given: MutableMapping[str, Any]) -> HostChoice:
    """Take the value of `options` out of `given`, and return the choice among the hosts for a job."""
    return _healthy if given.pop("avoid_unhealthy") else lambda cluster, job: (cluster, job)


def checks() -> tuple[Check, ...]:
    """Return the check that names unhealthy nodes. A history that cannot be read is a finding."""

    def judge(survey: Survey) -> Iterable[Finding]:
        try:
            known = _unhealthy_of(survey.cluster)
        except UsageError as error:
            return [Finding(CHECK, Severity.UNKNOWN, survey.cluster.names, error.message, error.hint or "")]
        return [_finding(node) for node in known]

    return (
        Check(
            CHECK,
            title="nodes that failed repeatedly",
            why="A node that failed twice for the same reason of its own probably fails the next run too.",
            compares="the failures of the last day that runs of this machine name, at most one for the same reason",
            severity=Severity.WARN,
            asks=lambda host, wanted: {},
            judge=judge,
        ),
    )


def _unhealthy_of(cluster: Cluster) -> list[UnhealthyNode]:
    database.add(database.missing(), lambda text: None)
    now, hosts = time.time(), {(host.name, host.address) for host in cluster.hosts}
    rows = database.rows(0.0)  # An attempt that began long ago may have failed today.
    return [node for node in unhealthy(rows, now) if (node.host, node.address) in hosts]


def _finding(node: UnhealthyNode) -> Finding:
    failed = [f"run {run}: {moment(time)}" for run, time in zip(node.runs, node.times, strict=True)]
    text = (
        f"{node.reason}: failed {len(node.times)} times within {WINDOW_S / 3600:g} hours; "
        f"pylaunch start {OPTION} leaves it out until {moment(node.until)}"
    )
    return Finding(CHECK, Severity.WARN, (node.host,), text, f"pylaunch explain {node.runs[-1]}", evidence=(*failed,))


def _healthy(cluster: Cluster, job: JobSpec) -> tuple[Cluster, JobSpec]:
    """Return the healthy hosts, and the job with the spares that remain; print who is left out and why."""
    known = _unhealthy_of(cluster)
    left, chosen = without(cluster, job, known)
    for line in _grouped(known):
        console.say(f"note: left out until {line}; without {OPTION} all are used")
    if chosen.spares != job.spares:
        console.say(f"note: {chosen.spares} of {job.spares} spares remain; the others replace nodes that are left out")
    return left, chosen


def _grouped(known: Sequence[UnhealthyNode]) -> list[str]:
    """Return one line for nodes that failed for the same reasons in the same runs."""
    alike: dict[tuple[str, tuple[str, ...]], list[UnhealthyNode]] = {}
    for node in known:
        alike.setdefault((node.reason, node.runs), []).append(node)
    return [
        f"{moment(max(node.until for node in nodes))}: {fold(node.host for node in nodes)}: {reason}, "
        f"{len(runs)} times within {WINDOW_S / 3600:g} hours (runs {', '.join(runs)})"
        for (reason, runs), nodes in alike.items()
    ]


def without(cluster: Cluster, job: JobSpec, known: Sequence[UnhealthyNode]) -> tuple[Cluster, JobSpec]:
    """Return the hosts without unhealthy ones, and the job whose spares replace them. Pure.

    Raises ClusterNotReadyError where fewer hosts remain than `--nodes` requests.
    """
    out = {node.host for node in known}
    if not out:
        return cluster, job
    hosts = tuple(host for host in cluster.hosts if host.name not in out)
    wanted = job.nodes if job.nodes is not None else max(1, min(len(hosts), len(cluster.hosts) - job.spares))
    if len(hosts) < wanted:
        raise ClusterNotReadyError(
            f"{OPTION} leaves {len(hosts)} of {len(cluster.hosts)} hosts, and the run needs {wanted}",
            evidence=[f"until {line}" for line in _grouped(known)],
            hint=f"repair them, or use them all the same: the same command without {OPTION}",
        )
    return replace(cluster, hosts=hosts), replace(job, spares=min(job.spares, len(hosts) - wanted))
