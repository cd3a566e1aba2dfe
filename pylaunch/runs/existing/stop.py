"""Stop a run on all of its nodes, and prove that they are clean."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from pylaunch.base.dataclass import replace
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.run import RunRecord
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.connect.interruptible import InterruptSource, on_fleet
from pylaunch.runs.existing.proof import NodeProof, end
from pylaunch.runs.existing.reach import agent_of, attach_all, raise_if_none
from pylaunch.runs.follow.run_events import Emitter
from pylaunch.runs.follow.run_follower import RunFollower
from pylaunch.store.account import user_and_host


def stop(
    record: RunRecord, emit: Emitter, grace: timedelta, source: InterruptSource
) -> tuple[Outcome, Mapping[str, NodeProof]]:
    """End a run on every node that can be reached; return its outcome, and the answers of nodes that were asked again.

    A node is asked again when its agent cannot prove that the node is clean: killed, stopped, or gone. Raises
    ClusterNotReadyError when no node answers.
    """

    async def work(fleet: Fleet) -> tuple[Outcome, dict[str, str]]:
        follower = RunFollower(record.plan, fleet, emit, streams=[])
        reasons = await fleet.unless_interrupted(attach_all(fleet, record, follower))
        follower.order_stop(f"stopped with pylaunch stop by {user_and_host()}", grace)
        return await follower.follow(), reasons

    outcome, reasons = on_fleet(record.plan, agent_of(record), work, source=source)
    in_doubt = {*outcome.unproven, *outcome.leftovers}
    if not in_doubt:
        return outcome, {}
    proofs = end(record.plan, in_doubt, grace.total_seconds())
    silent = {name: proofs[name].reason or "" for name in reasons if proofs[name].reason is not None}
    raise_if_none(record, {name: reason or reasons[name] for name, reason in silent.items()})
    return proven(outcome, proofs), proofs


def proven(outcome: Outcome, proofs: Mapping[str, NodeProof]) -> Outcome:
    """Add the answers of nodes to `outcome`. A run is lost, not stopped, when nothing of it was there any more."""
    known = {host: left for host, left in outcome.leftovers.items() if host not in proofs}
    after = replace(
        outcome,
        leftovers=known | {host: each.left for host, each in proofs.items() if each.left},
        unproven=tuple(host for host in outcome.unproven if host not in proofs or proofs[host].reason is not None),
    )
    was_over = proofs and all(each.is_clean and not each.found for each in proofs.values())
    if outcome.by_hand and was_over and not any(end.stopped for end in outcome.ends):
        host, first = next(iter(proofs.items()))
        return replace(after, status=Status.FAILED, reason=f"{host}: {first.words}", by_hand=False)
    return after
