"""Provision hosts: plan from one question to every host, then change only those that differ.

plan   = plan_provision(cluster, options, judge)   asks every host, changes nothing
report = look_ahead(plan, emit)               only for --plan: Ansible's check mode on the hosts that differ
plan   = roll_back(plan)                      only for --rollback
report = provision(plan, emit)                Ansible on the hosts to change, then the same question again
report.raise_for_errors()

plan   = plan_reset(cluster, options)
result = reset_hosts(plan, emit, …)           undoes what the roles own
"""

from collections.abc import Callable, Mapping

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.base.layout import RUN_ID
from pylaunch.checks.occupancy.look import look
from pylaunch.errors import ClusterNotReadyError
from pylaunch.features.provision.convergence import (
    PYTHON_ENV,
    Convergence,
    ProvisionEvent,
    ProvisionOptions,
    ProvisionRequest,
    ProvisionSurvey,
    batches,
    converge,
    request_of,
    run_site,
    survey,
)
from pylaunch.features.provision.environments.environment import swap_with_previous
from pylaunch.features.provision.errors import provision_error
from pylaunch.features.provision.file_lines import FileDifference, file_lines
from pylaunch.inventory.keys import is_true
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold
from pylaunch.model.job import USUAL_PORT
from pylaunch.model.run import Notes, ignore
from pylaunch.model.setting import (
    Circumstances,
    Judge,
    LintFinding,
    LintLevel,
    machines,
    refuse_errors,
    settings_of,
)
from pylaunch.model.text.argv import pylaunch
from pylaunch.probe.ask import unreachable_error
from pylaunch.store import content
from pylaunch.transport.connections import disconnect
from pylaunch.transport.runner import PlaybookResult, PlaybookRun, Progress, run_playbook


def lint_variables(
    cluster: Cluster, variables: Mapping[str, Mapping[str, object]], judge: Judge
) -> tuple[LintFinding, ...]:
    """Return findings about `nccl_env_variables` of all hosts; equal findings are merged."""
    alike: dict[tuple[tuple[tuple[str, str], ...], bool], list[str]] = {}
    for host, own in variables.items():
        asked = own.get("nccl_env_variables")
        if isinstance(asked, Mapping):
            plain = tuple((str(name), str(value)) for name, value in asked.items() if "{{" not in str(value))
            alike.setdefault((plain, is_true(own.get("nccl_env_allow_debug", False))), []).append(host)
    findings: list[LintFinding] = []
    count = machines(host.rank_address for host in cluster.hosts)
    for (plain, allow_debug), names in alike.items():
        where = f"nccl_env_variables of {fold(names)}"
        debug = None if allow_debug else LintLevel.ERROR
        findings += judge(settings_of(dict(plain), where), Circumstances(count, debug))
    return tuple(findings)


@dataclass(frozen=True)
class ProvisionPlan:
    """The difference between hosts and their desired state."""

    request: ProvisionRequest
    found: ProvisionSurvey

    @property
    def lacks_environment(self) -> bool:
        """The role python_env is wanted, and no environment is locked that it could install."""
        return PYTHON_ENV in self.found.wanted.roles and not self.request.environment.is_dir()

    def raise_if_unreachable(self) -> None:
        """Raises ClusterNotReadyError for hosts that did not answer."""
        if self.found.unreachable:
            raise unreachable_error(self.found.unreachable, self.request.cluster)


@dataclass(frozen=True)
class ProvisionReport:
    """State of every host before and after provisioning."""

    plan: ProvisionPlan
    done: Convergence | None
    """None when no host had to change."""

    ahead: PlaybookResult | None = None
    """Ansible's check mode, for a plan."""

    @property
    def result(self) -> PlaybookResult | None:
        """Result of the playbook; None where it did not run."""
        return self.ahead if self.done is None else self.done.result

    @property
    def lines(self) -> Mapping[str, tuple[FileDifference, ...]]:
        """Lines of files that were changed, or would be in a plan, by host."""
        return {} if self.result is None else file_lines(self.result.changes)

    def raise_for_errors(self) -> None:
        """Raises the error about failed tasks, hosts that still differ and hosts out of reach."""
        found, done = self.plan.found, self.done
        unreachable = {**found.unreachable, **(done.after.unreachable if done is not None else {})}
        failures = done.result.failures if done is not None else ()
        remaining = {host: each for host, each in done.after.changes.items() if each} if done is not None else {}
        if failures or remaining:
            request = self.plan.request
            raise provision_error(
                request.cluster, failures, remaining, unreachable, rolled_back=request.options.rollback
            )
        if unreachable:
            raise unreachable_error(unreachable, self.plan.request.cluster)


def plan_provision(
    cluster: Cluster, options: ProvisionOptions, judge: Judge, *, on_note: Notes = ignore
) -> ProvisionPlan:
    """Ask every host what it is and compare. Changes nothing; hosts out of reach are in the plan.

    Raises UsageError for a cluster without an inventory and for variables that cannot work.
    """
    plan = plan_reset(cluster, options)
    refuse_errors(lint_variables(cluster, plan.found.wanted.variables, judge), on_note)
    return plan


def look_ahead(plan: ProvisionPlan, emit: Callable[[Progress], None]) -> ProvisionReport:
    """Report what Ansible, in check mode, would change on hosts that differ."""
    hosts = [host for host in plan.found.states if plan.found.changes[host]]
    if not hosts:
        return ProvisionReport(plan, None)
    request = replace(plan.request, cluster=plan.request.cluster.only(hosts))
    return ProvisionReport(plan, None, run_site(request, plan.found, check=True, on_progress=emit))


def plan_reset(cluster: Cluster, options: ProvisionOptions) -> ProvisionPlan:
    """Ask every host what it is, for a reset. Raises the errors of `plan_provision`, but not those of variables."""
    request = request_of(cluster, options)
    return ProvisionPlan(request, survey(request))


def roll_back(plan: ProvisionPlan) -> ProvisionPlan:
    """Make the environment that was locked before the locked one again.

    Raises ClusterNotReadyError while a host is out of reach, which would keep the other environment.
    """
    plan.raise_if_unreachable()
    request = plan.request
    directory = request_of(request.cluster, replace(request.options, rollback=False)).environment
    swap_with_previous(directory)
    return replace(plan, request=replace(request, environment=directory))


def provision(plan: ProvisionPlan, emit: Callable[[ProvisionEvent], None]) -> ProvisionReport:
    """Change the hosts that differ, batch after batch, up to the first batch that fails. Failures are in the report."""
    found = plan.found
    if not found.to_change:
        return ProvisionReport(plan, None)
    chosen = batches(found.to_change, plan.request.options.batch_sizes)
    return ProvisionReport(plan, converge(plan.request, found, chosen, emit=emit))


def reset_hosts(
    plan: ProvisionPlan, emit: Callable[[Progress], None], *, environments: bool, dry_run: bool
) -> PlaybookResult:
    """Undo on every host what the roles own, with `environments` the Python environments too.

    Raises ClusterNotReadyError, before any changes, when a host is out of reach, and with `environments` while ranks
    run on a host; ProvisionError for failed tasks.
    """
    plan.raise_if_unreachable()
    if environments and not dry_run:
        refuse_live_ranks(plan.request.cluster)
    request = plan.request
    undo = PlaybookRun(
        playbook=content.playbook("reset"),
        cluster=request.cluster,
        tags=request.roles,
        extra_vars={**request.extra_vars, "python_env_reset": environments},
        check=dry_run,
        become_password=request.options.become_password,
    )
    result = run_playbook(undo, on_event=emit)
    disconnect(request.cluster)  # Limits apply from the next login.
    if result.failures:
        raise provision_error(request.cluster, result.failures)
    return result


def refuse_live_ranks(cluster: Cluster) -> None:
    """Raise ClusterNotReadyError while ranks run on a host, or may run: their imports, and restarts, need
    their environment. For a named environment, hosts know which runs use it: only ranks of others count."""
    views, unreachable = look(cluster, USUAL_PORT)
    if unreachable:
        raise unreachable_error(unreachable, cluster)
    hosts: dict[str, list[str]] = {}
    own: dict[str, None] = {}
    for name, view in views.items():
        if view.processes_unread is not None:
            hosts.setdefault(f"its processes cannot be read: {view.processes_unread}", []).append(name)
        for each in (*view.occupancy.at_work, *view.occupancy.foreign):
            if each.is_rank and (each.run is None or cluster.env_name is None):
                what = "ranks that pylaunch did not start" if each.run is None else f"run {each.run}"
                hosts.setdefault(f"{what} of {each.user}", []).append(name)
                if each.run is not None and each in view.occupancy.at_work:
                    own[each.run] = None
    if not hosts:
        return
    stops = [pylaunch("stop", run) for run in own if RUN_ID.match(run)]
    raise ClusterNotReadyError(
        "ranks need the Python environment, so nothing was undone",
        evidence=[f"{fold(dict.fromkeys(names))}: {what}" for what, names in hosts.items()],
        hint="\n      ".join([*stops, f"who uses each host: {pylaunch('gpus')}"]),
    )
