"""Causes that the calls and stacks of living ranks suggest, as they were when the first rank failed. Pure.

The views of one failure are one sample, taken while ranks end: they add a possible cause and name nobody.
"""

from __future__ import annotations

from collections.abc import Iterator

from pylaunch.model.diagnosis.cause import Certainty, FailureCause
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.verdict.causes.cause_kinds import advised
from pylaunch.verdict.failure_evidence import Evidence
from pylaunch.verdict.hangs.judge import judge
from pylaunch.verdict.hangs.recorded_views import ACROSS_RANKS
from pylaunch.verdict.hangs.snapshot import HangEvidence

MOST = 2


def view_causes(evidence: Evidence, first: RankEnd) -> Iterator[FailureCause]:
    """Yield possible causes for a run whose first failure is that of a victim, without those that name a victim."""
    ended = {end.rank for end in evidence.failures}
    views = tuple(sorted((each for each in evidence.views if each.rank not in ended), key=lambda each: each.rank))
    if not first.symptom or len(views) < 2:
        return
    hosts = {rank: host for host, ranks in evidence.ranks.items() for rank in ranks if rank not in ended}
    seen = {each.rank for each in views}
    found = [each for each in judge(HangEvidence("RUN", hosts, (views,))) if each.kind in ACROSS_RANKS]
    found = [each for each in found if each.confidence is not Confidence.LOW and seen.issuperset(each.ranks)]
    for each in found[:MOST]:
        yield advised(
            FailureCause("ranks-disagree", each.text, Certainty.POSSIBLE, None, each.evidence[:4]), each.hosts
        )
