"""Repair hosts: run the roles that findings name, on the hosts where they were found."""

from collections.abc import Callable, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.model.cluster import Cluster
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.probe.ask import unreachable_error
from pylaunch.provision.convergence import ProvisionEvent, ProvisionOptions, converge, request_of, survey
from pylaunch.provision.errors import failure_error, remaining_error
from pylaunch.provision.root_access import refused_by_sudo, sudo_error


@dataclass(frozen=True)
class Repair:
    """Roles to run on hosts."""

    roles: tuple[str, ...]
    hosts: tuple[str, ...]
    checks: tuple[str, ...]
    """Checks whose findings name the roles."""


def repairs(cluster: Cluster, findings: Sequence[Finding]) -> tuple[Repair, ...]:
    """Return the roles that `findings` name, hosts that need the same roles together. Notes name none. Pure."""
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


def repair_hosts(cluster: Cluster, repair: Repair, emit: Callable[[ProvisionEvent], None]) -> bool:
    """Run the roles of `repair`; return False where they have nothing to change.

    Raises UsageError without an inventory, ClusterNotReadyError for hosts out of reach, ProvisionError for failed
    tasks.
    """
    request = request_of(cluster.only(repair.hosts), ProvisionOptions(roles=repair.roles))
    found = survey(request)
    if found.unreachable:
        raise unreachable_error(found.unreachable, request.cluster)
    if refused := refused_by_sudo(request, found, on_all=True):
        raise sudo_error(request, refused, "--roles", ",".join(repair.roles))
    done = converge(request, found, (repair.hosts,), roles=repair.roles, emit=emit)
    if done.result.failures:
        raise failure_error(done.result.failures, len(repair.hosts))
    if any(done.after.changes.values()):
        raise remaining_error(done.after.changes)
    return bool(done.result.changes)
