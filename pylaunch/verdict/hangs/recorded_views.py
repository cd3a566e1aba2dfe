"""Finding on the views in the record of a run: those that its nodes took before they stopped the ranks. Pure.

The views are one sample. After a failure, the end that the verdict names explains why the others waited; without such
an end, differing calls are shown and name nobody: ranks that had not ended may be victims of one that had.
"""

from collections.abc import Mapping, Sequence

from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.model.outcome import Outcome
from pylaunch.protocol.examination import RankView
from pylaunch.verdict.hangs.judge import judge_hang
from pylaunch.verdict.hangs.snapshot import HangEvidence
from pylaunch.verdict.rank_end import described

ACROSS_RANKS = (
    HangKind.OTHER_CALL, HangKind.OTHER_PLACE, HangKind.EXTRA_CALL, HangKind.GROUP_ORDER, HangKind.LATE,
    HangKind.INTERPRETER_HELD, HangKind.RESTARTED,
)  # fmt: skip
"""Findings from which no other rule concludes."""

_NOTHING = (HangKind.UNDECIDED, HangKind.ADVANCING)


def finding_on_views(
    run: str, hosts: Mapping[int, str], outcome: Outcome | None, views: Sequence[RankView]
) -> HangFinding | None:
    """Return what the recorded views of a run show about waiting ranks; None where they add nothing.

    `hosts` has the host of every rank of the run.
    """
    ends = {} if outcome is None else {end.rank: end for end in outcome.ends if end.failed and end.rank is not None}
    named = outcome.named if outcome is not None else None
    cause = None if named is None or named.rank is None else ends.get(named.rank)
    gone = {rank for rank, end in ends.items() if end is not cause}
    left = {rank: host for rank, host in hosts.items() if rank not in gone}
    seen = tuple(sorted((view for view in views if view.rank in left), key=lambda view: view.rank))
    if len(seen) < 2:
        return None
    ended = {} if cause is None or cause.rank is None else {cause.rank: described(cause)}
    first = judge_hang(HangEvidence(run, left, (seen,), ended=ended))[0]
    if not ends:
        return None if first.kind in _NOTHING else first
    if cause is not None:
        return first if first.kind is HangKind.ENDED and first.ranks == (cause.rank,) else None
    if first.kind not in ACROSS_RANKS or first.confidence is Confidence.LOW:
        return None
    return replace(first, ranks=(), hosts=(), confidence=Confidence.LOW)
