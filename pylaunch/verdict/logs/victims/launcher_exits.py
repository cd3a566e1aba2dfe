"""Reports of launchers about what ended: a process that no failure and no stop precedes is the cause. Pure."""

from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.clue import Clue, default
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.victims.rank_ends import ABOUT_OTHERS, SIGNAL_NUMBERS, SIGNALS

LIMIT = "launcher-limit"
NAMED = "named-exit"
EXITS = ("rank-exit", "process-exits", NAMED, LIMIT)
"""Signatures of such reports."""

ANY_LEVEL = (*EXITS, "prompt-unanswered", "nccl-graph-file", "nccl-returns", "ofi-library-old")
"""Signatures of lines that count whatever level is in them."""

STOPS = "launcher-stops"
"""Signature of a launcher that ends the other ranks."""

OF_A_SHELL = 128
"""Exit status of a shell for a signal, less the number of the signal."""


def read_exit(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the signal that ended the rank which a launcher reports first; else a report without a cause."""
    first = next((each for each in facts.of(NAMED) if each.file == match.file), None)
    is_planned = first is not None and not _is_failure(first) and first.line < match.line
    if match.signature.id in (LIMIT, STOPS):
        return replace(default(match), role=Role.BENIGN) if is_planned else default(match)
    named = {name.rstrip("23456"): value for name, value in match.groups.items()}
    code = int(named["code"]) if "code" in named else -SIGNAL_NUMBERS.get(named["signal"], 0)
    if code == 0 or (is_planned and code in (143, -15) and facts.of(STOPS)):
        return Clue("unexplained", match.signature.means, Confidence.LOW, role=Role.BENIGN)
    signal = code if "by_signal" in named else -code if code < 0 else code - OF_A_SHELL
    lost = {str(rank) for rank, line in facts.ends.last.items() if ABOUT_OTHERS.search(line.text)}
    before = [each for name in (*EXITS, STOPS) for each in facts.of(name) if _is_failure(each)]
    before = [each for each in before if each.groups.get("rank") not in lost]
    is_first = all(each.file != match.file or each.line >= match.line for each in before)
    if (
        match.signature.id == NAMED
        or signal not in SIGNALS
        or not is_first
        or (signal == 1 and not _has_ended_with(facts, OF_A_SHELL + 1))
    ):
        return default(match)
    cause, how = SIGNALS[signal]
    if "rank" not in named:
        return Clue(cause, f"process {named['name']} was ended by {how}", Confidence.MEDIUM, role=Role.ROOT)
    rank = int(named["rank"])
    because = "the launcher reports it as the first end"
    return Clue(
        cause,
        f"rank {rank} was ended by {how}{facts.ends.shown_last(rank)}",
        Confidence.MEDIUM,
        (rank,),
        Role.ROOT,
        because,
    )


def _is_failure(report: LogMatch) -> bool:
    return not any(name.startswith("code") and value == "0" for name, value in report.groups.items())


def _has_ended_with(facts: LogFacts, code: int) -> bool:
    """Return True if a log ends with the report of a code: -1 alone may be no signal."""
    return any(f" {code}" in line.text for scan in facts.scans for line in scan.tail[-3:])
