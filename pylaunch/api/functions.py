"""The functions of the public API."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pylaunch import features
from pylaunch.api.run_handle import RunHandle
from pylaunch.base.dataclass import replace
from pylaunch.checks import suite
from pylaunch.checks.suite import Result, select
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.features import judge_settings
from pylaunch.features.provision import provisioning as provisioning
from pylaunch.features.provision.convergence import ProvisionEvent, ProvisionOptions
from pylaunch.features.provision.provisioning import ProvisionReport
from pylaunch.inventory import load
from pylaunch.model.cluster import Cluster
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome
from pylaunch.render import plan_start
from pylaunch.runs import attach as attaching
from pylaunch.runs import start as starting
from pylaunch.runs.all_runs import discover_runs, find_run
from pylaunch.runs.events import RunBegun, StartEvent, notice
from pylaunch.runs.prepare.session import InterruptedBeforeReleaseError
from pylaunch.runs.start import StartOptions
from pylaunch.runs.start_checks import at_start_checks
from pylaunch.store import runs
from pylaunch.transport.interrupts import Interrupter


def load_cluster(inventory: str | Path, *, limit: str | None = None) -> Cluster:
    """Return the hosts of an Ansible inventory; `limit` is Ansible's pattern.

    Raises InventoryError with everything that is wrong in the inventory.
    """
    return load.load_cluster(Path(inventory), limit=limit)


def provision(
    cluster: Cluster,
    options: ProvisionOptions | None = None,
    *,
    on_event: Callable[[ProvisionEvent], None] = lambda event: None,
) -> ProvisionReport:
    """Bring every host to its desired state with Ansible; hosts that have it already are not changed.

    Hosts that failed are in the report: `raise_for_errors()` raises for them. Raises UsageError for a cluster without
    an inventory, ProvisionError for a distribution that the roles do not support.
    """
    plan = provisioning.plan_provision(cluster, ProvisionOptions() if options is None else options, judge_settings)
    return provisioning.provision(plan, on_event)


def check(
    cluster: Cluster,
    job: JobSpec | None = None,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    **of_features: object,
) -> Result:
    """Run the checks of `pylaunch check` on all hosts, for `job` or for no job in particular. Changes nothing.

    `only` and `skip` take check ids and subjects; `of_features` are those of
    `start`. Hosts that cannot be reached are findings. Raises UsageError for a check that does not exist, and for a job
    that does not fit the cluster.
    """
    planned = JobSpec(suite.NO_SCRIPT, Framework.DIRECT, "/") if job is None else job
    planned = _with_features(planned, of_features)
    checks = select(suite.CHECKS, only=only, skip=skip)
    return suite.check(cluster, planned, suite.Needs(), checks)


def start(
    cluster: Cluster,
    job: JobSpec,
    options: StartOptions | None = None,
    **of_features: object,
) -> RunHandle:
    """Start `job` on `cluster` and return as soon as the run has an id and a record on this machine.

    `of_features` are options of `pylaunch start` that are no fields of a job, by name: `container`, and
    `container_mount`, a list.
    The checks of a start run beside it, unless `options` chooses others. A start that is refused ends the run with
    Status.REFUSED. Raises UsageError for a job that does not fit the cluster.
    """
    wanted = StartOptions(checks=at_start_checks(skip=job.skipped_checks)) if options is None else options
    early: list[StartEvent] = []
    job = _with_features(job, of_features)

    def say(text: str) -> None:
        early.append(notice(text))

    planned = plan_start(cluster, job, runs.new_run_id(), say)
    features.refuse_variables(planned, say)
    recorded = starting.begin(planned, wanted, early.append)

    def work(emit: Callable[[StartEvent], None], interrupter: Interrupter) -> Outcome:
        begun = [planned.plan.run]

        def show(event: StartEvent) -> None:
            if isinstance(event, RunBegun):
                begun.append(event.plan.run)
            emit(event)

        for event in early:
            emit(event)
        try:
            return starting.run(recorded, replace(wanted, relays_output=False), show, interrupter)
        except (ClusterNotReadyError, InterruptedBeforeReleaseError):
            refused = runs.read(begun[-1]).outcome
            if refused is None:
                raise
            return refused

    return RunHandle(planned.plan.run, work, starts=True)


def _with_features(job: JobSpec, values: Mapping[str, object]) -> JobSpec:
    """Return `job` with options of features, each declared once, in a row. Raises UsageError for an unknown one."""
    rows = {each.name: each for each in features.job_options()}
    if unknown := sorted(values.keys() - rows.keys()):
        raise UsageError(f"{unknown[0]}: no option of a job; expected {', '.join(rows)}")
    given = {name: row.default if values.get(name) is None else values[name] for name, row in rows.items()}
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return features.job_changes(given)(job)


def attach(run: str, cluster: Cluster | None = None) -> RunHandle:
    """Return a handle for a run that this or another process started, by its id or the beginning of it.

    With `cluster`, also finds runs that only its hosts know. Raises UnknownRunError at once for
    a run that nobody knows, ClusterNotReadyError when none of the hosts answers.
    """
    record = find_run(run, None if cluster is None else discover_runs(cluster))

    def work(emit: Callable[[StartEvent], None], interrupter: Interrupter) -> Outcome:
        return attaching.attach(record, emit, interrupter, attaching.AttachOptions(relays_output=False))

    return RunHandle(record.plan.run, work)
