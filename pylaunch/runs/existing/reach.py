"""Connect to the nodes of a run that exists, and report those that cannot be reached."""

from collections.abc import Iterable, Mapping

from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.diagnosis.host_errors import error_lines
from pylaunch.model.hostset import fold
from pylaunch.model.run import RunRecord
from pylaunch.runs.connect.agent_link import RunUnknownError
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.follow.run_follower import RunFollower


async def attach_all(fleet: Fleet, record: RunRecord, follower: RunFollower) -> dict[str, str]:
    """Connect to all nodes; return the reasons of those that cannot be reached, by host. `follower` is notified.

    Where no host knows a run that ran, all have a reason: they may be other machines.
    """
    names = [node.host.name for node in record.plan.nodes]
    failures = await fleet.connect(names, "attach")
    strangers = [name for name, error in failures.items() if isinstance(error, RunUnknownError)]
    reasons = {}
    for name, error in failures.items():
        if name in strangers and (record.began is None or strangers != names):
            follower.nothing_there(name)
        else:
            reasons[name] = str(error)
            follower.given_up(name, reasons[name], host_answers=error.host_answers)
    return reasons


def raise_if_none(record: RunRecord, reasons: Mapping[str, str], *, of: Iterable[str] | None = None) -> None:
    """Raises ClusterNotReadyError when every node (`of` these) has a reason why it cannot be reached."""
    names = list(of) if of is not None else [node.host.name for node in record.plan.nodes]
    if len(reasons) >= len(names):
        raise ClusterNotReadyError(
            f"run {record.plan.run}: no agent of it answers on {fold(names)}",
            evidence=error_lines(record.plan.cluster.hosts, reasons),
            hint=f"pylaunch status {record.plan.run}",
        )
