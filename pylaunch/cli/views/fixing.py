"""`check --fix`: the roles that findings name, run on the hosts where they were found."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pylaunch.cli import console
from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster
from pylaunch.model.finding import Finding, Severity
from pylaunch.model.hostset import fold
from pylaunch.provision.errors import failure_error, remaining_error, unreachable_error
from pylaunch.provision.progress import TaskFollower
from pylaunch.provision.workflow import converge, site_request, survey
from pylaunch.transport.runner import Progress


@dataclass(frozen=True)
class Repair:
    """Roles to run on hosts."""

    roles: tuple[str, ...]
    hosts: tuple[str, ...]
    checks: tuple[str, ...]
    """What asked for it."""


def repairs(cluster: Cluster, findings: Sequence[Finding]) -> tuple[Repair, ...]:
    """What to run for `findings`: the roles that the same hosts need, together. Notes ask for nothing. Pure."""
    needs: dict[str, dict[str, set[str]]] = {}
    for finding in findings:
        if finding.role and finding.severity is not Severity.NOTE:
            for host in finding.hosts:
                needs.setdefault(host, {}).setdefault(finding.role, set()).add(finding.check)
    together: dict[tuple[str, ...], list[str]] = {}
    for host in cluster.names:
        if host in needs:
            together.setdefault(tuple(sorted(needs[host])), []).append(host)
    return tuple(
        Repair(
            roles, tuple(hosts), tuple(sorted({each for host in hosts for role in roles for each in needs[host][role]}))
        )
        for roles, hosts in together.items()
    )


def show(plan: Sequence[Repair]) -> None:
    """What would be run where, and what for."""
    for repair in plan:
        console.say(f"{fold(repair.hosts)}: {', '.join(repair.roles)} (for {', '.join(repair.checks)})")


def mend(cluster: Cluster, plan: Sequence[Repair]) -> None:
    """Run the plan through the workflow of `provision`. Raises its errors."""
    if not cluster.sources:
        raise UsageError("--fix provisions hosts, so it wants an inventory that names them", hint="pylaunch check -i …")
    for repair in plan:
        request = site_request(cluster.only(repair.hosts), repair.roles)
        found = survey(request)
        if found.unreachable:
            raise unreachable_error(found.unreachable, len(found.answers))
        if not found.to_change:
            console.say(f"{fold(repair.hosts)}: {', '.join(repair.roles)} has nothing to change: see the finding's fix")
            continue
        follower = TaskFollower()
        done = converge(request, found, on_progress=_shown(follower))
        if (last := follower.end()) is not None and last.report:
            console.say(f"  {last.report}")
        if done.result.failures:
            raise failure_error(done.result.failures, len(repair.hosts))
        if any(done.after.changes.values()):
            raise remaining_error(done.after.changes)


def _shown(follower: TaskFollower) -> Callable[[Progress], None]:
    def show_progress(event: Progress) -> None:
        ended = follower.add(event, time.monotonic())
        if ended is not None and ended.report:
            console.say(f"  {ended.report}")

    return show_progress
