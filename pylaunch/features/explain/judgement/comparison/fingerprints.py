"""Collectives that the ranks announce under TORCH_DISTRIBUTED_DEBUG=DETAIL: those in which a log ends differ. Pure.

Form: ProcessGroupWrapper.cpp of torch.
"""

import re
from collections.abc import Iterator

from pylaunch.features.explain.judgement.indications.form import Excerpts, LogExcerpt, LogForm
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.majority import majority
from pylaunch.model.hostset import named_ranks

RUNNING = LogForm(
    "fingerprint",
    ("Running collective: CollectiveFingerPrint(",),
    re.compile(
        r"\[[Rr]ank (?P<rank>\d{1,6})\] Running collective: CollectiveFingerPrint\("
        r"SequenceNumber=(?P<number>\d{1,12}), OpType=(?P<op>\w{1,40})(?:, TensorShape=\[(?P<shape>[\d, ]{0,80})\])?"
    ),
)
FORMS = (RUNNING,)

NEAR = 4
"""Lines for each rank within which the last ones of all ranks are, where the ranks stand in them."""


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield the ranks whose last collective is another one than that of the majority."""
    last: dict[str, LogExcerpt] = {}
    for line in excerpts.get(RUNNING.id, ()):
        last[line.groups["rank"]] = line
    ends = [line.line for line in last.values()]
    if len(last) < 2 or max(ends) - min(ends) > NEAR * len(last):
        return
    at = {rank: _shown(line) for rank, line in last.items()}
    if len(set(at.values())) < 2:
        return
    division = majority(at)
    listed = "; ".join(f"{named_ranks(tuple(sorted(map(int, names))))} in {where}" for where, names in division.odd[:3])
    usual = "" if division.usual is None else f"; the others in {division.usual}"
    odd = tuple(sorted(int(name) for _, names in division.odd for name in names))
    ranks = odd if len(division.usual_hosts) > 1 else ()
    text = f"the ranks ended up in different collectives: {listed}{usual}"
    shown = [last[str(rank)] for rank in odd[:3]] + [last[name] for name in division.usual_hosts[:1]]
    yield Indication("collective-mismatch", text, shown[0], 0, Confidence.MEDIUM, ranks=ranks, others=tuple(shown[1:]))


def _shown(line: LogExcerpt) -> str:
    return f"{line.groups['number']} ({line.groups['op']} of [{line.groups.get('shape', '')}])"
