"""Processes on the hosts of a start that no live run owns, ended before it (`start --stale kill`)."""

from pylaunch.checks.occupancy.look import look, sweep
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.hostset import fold
from pylaunch.model.job import USUAL_PORT
from pylaunch.model.plan import RunPlan
from pylaunch.runs.start_events import Emit, LeftoverEnded


def end_leftovers(plan: RunPlan, emit: Emit) -> None:
    """End processes on the hosts of `plan` that no live run owns. Raises ClusterNotReadyError for those that survive.

    Hosts that cannot be asked are skipped: the start reports them.
    """
    port = plan.job.rendezvous_port or USUAL_PORT
    views, _ = look(plan.cluster, port)
    found = {name: view.occupancy.stale for name, view in views.items() if view.occupancy.stale}
    if not found:
        return
    swept, _ = sweep(plan.cluster.only(found), port, found, dry_run=False)
    for name, each in swept.items():
        for process in each.ended:
            emit(LeftoverEnded(name, process))
    stays = {name: each.stays for name, each in swept.items() if each.stays}
    if stays:
        raise ClusterNotReadyError(
            f"processes on {fold(stays)} survive SIGKILL",
            evidence=[f"{name}: {process}" for name, processes in stays.items() for process in processes],
            hint="a process in state D waits in the kernel: see dmesg there, then reboot the host",
        )
