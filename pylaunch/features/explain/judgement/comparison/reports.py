"""Reports of torch on the ranks of a collective: the flight recorder's analysis, and the desync report. Pure.

Forms: https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html, and TraceUtils.h of torch.
"""

import re
from collections.abc import Iterator

from pylaunch.features.explain.judgement.indications.form import OF_A_REPORT, Excerpts, LogExcerpt, LogForm, ranks_in
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import named_ranks

NOT_ALL = LogForm(
    "fr-not-all",
    ("Not all ranks joining collective",),
    re.compile(r"Not all ranks joining collective(?:,? ?:? sequence number:)? ?(?P<number>\d{1,12})?"),
    follows=10,
    most=OF_A_REPORT,
)
DESYNC = LogForm(
    "desync-report",
    ("finish collective #", "finished collective #"),
    re.compile(
        r"\[(?P<ranks>\d[\d, ]{0,400})\] (?:(?P<joined>joined) but didn't finish|finished)"
        r" collective #(?P<number>\d{1,12})"
        r"(?:, but didn't join collective #(?P<next>\d{1,12}))?"
    ),
    most=8,
)
FORMS = (NOT_ALL, DESYNC)

_MISSING = re.compile(r"[Mm]issing ranks(?::| are) ?\{(?P<ranks>\d[\d, ]{0,400})\}")
_OPERATION = re.compile(r"\bcollective: (?P<name>[\w:]{1,60})$")


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield the ranks that torch reports as absent from a collective."""
    for block in excerpts.get(NOT_ALL.id, ()):
        found = next((each for line in block.lines if (each := _MISSING.search(line))), None)
        if found is not None:
            named = next((each["name"] for line in block.lines if (each := _OPERATION.search(line.strip()))), "")
            number = block.groups.get("number", "")
            which = " ".join(filter(None, ("collective", number, named)))
            yield _absent(found["ranks"], f"did not join {which}", block, Confidence.MEDIUM)
    for line in excerpts.get(DESYNC.id, ()):
        if "next" in line.groups:
            clause = f"finished collective {line.groups['number']} and did not join collective {line.groups['next']}"
            yield _absent(line.groups["ranks"], clause, line, Confidence.MEDIUM)


def _absent(listed: str, clause: str, line: LogExcerpt, sure: Confidence) -> Indication:
    ranks = tuple(sorted(ranks_in(listed)))
    return Indication("rank-absent", f"{named_ranks(ranks)} {clause}", line, 0, sure, ranks=ranks)
