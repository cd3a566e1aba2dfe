"""Check hosts: ask them, judge the answers of all of them together.

request = plan_check(cluster, job, needs, checks)    no host is contacted
found   = check(request)                             one question to every host; nothing is changed
"""

import time
from collections.abc import Sequence

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.checks import suite
from pylaunch.checks.check import Check
from pylaunch.checks.result import Result, result
from pylaunch.checks.survey import Room, Wanted
from pylaunch.checks.wanted import wanted_by
from pylaunch.model.cluster import Cluster
from pylaunch.model.job import USUAL_PORT, JobSpec
from pylaunch.model.plan import RunPlan, plan_run

NO_SCRIPT = ("",)
"""Command of a job for which only the hosts are checked."""


@dataclass(frozen=True)
class Needs:
    """Requirements of a run that are no part of its job."""

    files: tuple[str, ...] = ()
    """Files that must be equal on all hosts; relative ones start at the working directory."""

    checkpoint_dir: str = ""
    infiniband: bool = False
    workdir: str = ""
    """Working directory to check although there is no script."""

    rooms: tuple[Room, ...] = ()


@dataclass(frozen=True)
class CheckRequest:
    """Checks to run, and the hosts to run them on."""

    cluster: Cluster
    plan: RunPlan
    wanted: Wanted
    checks: tuple[Check, ...]


def plan_check(cluster: Cluster, job: JobSpec, needs: Needs, checks: Sequence[Check]) -> CheckRequest:
    """Plan `checks` on the hosts that `job` would run on. Raises UsageError for a job that does not fit the cluster."""
    plan = plan_run(cluster, job, "check")
    hosts = tuple(node.host for node in plan.nodes)
    return CheckRequest(replace(cluster, hosts=hosts), plan, _wanted(plan, needs), tuple(checks))


def check(request: CheckRequest) -> Result:
    """Ask every host and judge the answers. Hosts that do not answer are findings, not errors."""
    begun = time.monotonic()
    survey = suite.take(request.cluster, request.wanted, request.checks)
    return result(survey, request.checks, suite.judge(survey, request.checks), time.monotonic() - begun)


def _wanted(plan: RunPlan, needs: Needs) -> Wanted:
    """Return the needs of the run; without a script, only those that were named."""
    job = plan.job
    wanted = replace(
        wanted_by(plan, files=needs.files, checkpoint_dir=needs.checkpoint_dir, infiniband=needs.infiniband),
        rooms=needs.rooms,
        port=job.rendezvous_port or USUAL_PORT,
        any_port=job.rendezvous_port is None,
    )
    root = "/" if needs.files else ""
    if job.command != NO_SCRIPT:
        # Shipped code needs no comparison; files of the hosts do, and start at "/".
        return replace(wanted, workdir=root if job.sync is not None and needs.files else wanted.workdir)
    return replace(
        wanted,
        workdir=(needs.workdir if job.sync is None else "") or root,
        command=(),
        script="",
        pythons=wanted.pythons if job.python else {},
    )
