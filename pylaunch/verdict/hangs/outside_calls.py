"""Ranks that called a collective of a group that they are not in: torch warns and does nothing. Pure."""

from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.verdict.hangs.snapshot import Snapshot
from pylaunch.verdict.hangs.waiting import WaitGraph

EXPLAINED = frozenset(
    {HangKind.GROUP_ORDER, HangKind.ENDED, HangKind.EXTRA_CALL, HangKind.OTHER_CALL, HangKind.OTHER_PLACE}
)
"""Kinds of which such a call may be the cause."""

HINT = (
    "all ranks of a group call its collectives, and no other rank: compare `new_group` with the condition of the call"
)


def with_outside_calls(finding: HangFinding, snapshot: Snapshot, graph: WaitGraph) -> HangFinding:
    """Return `finding` with the calls of ranks that are not in the group.

    Where ranks of a group wait for one that has gone past their call, such a call of another rank is the likely cause;
    nobody is named then: the wrong ranks made the call, or the group has the wrong ranks.
    """
    callers = {rank: view.outside for rank, view in sorted(snapshot.views.items()) if view.outside}
    if not callers or not finding.is_hang:
        return finding
    texts = {
        rank: f"{snapshot.who([rank])} called {' and '.join(names)} of a group that it is not in"
        for rank, names in callers.items()
    }
    lines = tuple(f"{text}: torch warns and does nothing" for text in texts.values())
    finding = replace(finding, evidence=(*lines, *finding.evidence))
    past = graph.waiting | snapshot.evidence.ended.keys()
    skipped = [call.group.key.ranks for call in graph.pending if call.late & past]
    likely = [text for rank, text in texts.items() if any(rank not in ranks for ranks in skipped)]
    if not likely or finding.kind not in EXPLAINED:
        return finding
    return replace(
        finding, text="; ".join((finding.text, *likely)), confidence=Confidence.MEDIUM, ranks=(), hosts=(), hint=HINT
    )
