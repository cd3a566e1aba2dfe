"""Causes of the failure of a recorded run. Pure."""

from pylaunch.model.outcome import Status
from pylaunch.model.run import RunRecord
from pylaunch.verdict.failure_evidence import Evidence
from pylaunch.verdict.verdict import Verdict, judge


def causes(record: RunRecord) -> Verdict | None:
    """Return the verdict on a run that failed, as it was recorded; None for any other run.

    A record of an earlier version has no causes: its ends are judged, which yields possible causes.
    """
    outcome = record.outcome
    if outcome is None or outcome.status is not Status.FAILED:
        return None
    if outcome.causes:
        return Verdict(outcome.reason, outcome.named, outcome.first_failure, outcome.causes, outcome.rejected)
    ranks = {node.host.name: frozenset(rank.rank for rank in node.ranks) for node in record.plan.nodes}
    return judge(Evidence(ranks, outcome.ends, hosts=outcome.hosts))
