"""Cause behind ranks that waited: time-outs of collectives and lost connections, by facts across ranks. Pure.

The ranks that print these lines are victims. Without a root in the logs, this names the ranks that call another
collective than the majority, are behind it, or printed nothing although their output is there; or nobody.
"""

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import named_ranks
from pylaunch.verdict.logs.clue import Clue
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.victims.timeouts import EARLY_SEQUENCE, CollectiveTimeouts, DeviatingRanks

_WORK = ("data-preparation", "evaluation")
MOST_CALLS = 4


def read_waiting(facts: LogFacts) -> Clue:
    """Return the reading of the time-outs of collectives in the logs."""
    timeouts = facts.timeouts
    deviating = timeouts.deviating
    if deviating is not None and (deviating.at.number == deviating.others_at.number or not timeouts.silent):
        return _of_deviating(deviating, facts)
    absent = timeouts.silent
    waited = named_ranks(tuple(sorted(timeouts.reporters))) or "the ranks that print the time-out"
    who = named_ranks(absent) or "a rank"
    note = f": {who} printed no time-out" if absent else ""
    if _alone_at_work(absent, facts):
        text = f"{waited} waited for {'rank 0' if absent in ((), (0,)) else who}, which worked alone for too long{note}"
        confidence = Confidence.MEDIUM if absent or _is_cut_off(facts) else Confidence.LOW
        return Clue("rank0-long-work", text, confidence, absent, because=_work(facts))
    if timeouts.different and not absent:
        calls = ", ".join(dict.fromkeys(map(str, timeouts.different[:MOST_CALLS])))
        text = f"{waited} waited in different calls at one sequence number, without a majority: {calls}"
        return Clue("collective-mismatch", text, Confidence.LOW)
    if timeouts.all_wait_together:
        text = f"{waited} waited in the same collective {_number(timeouts)}: the logs show no rank that is missing"
        return Clue("rank-absent", text, Confidence.LOW)
    if len(timeouts.numbers) == 1 and min(timeouts.numbers) > EARLY_SEQUENCE:
        text = f"{who} left the loop or took another path while {waited} waited in collective {_number(timeouts)}{note}"
        return Clue("uneven-data", text, Confidence.LOW, absent, because="the collective is one of the training loop")
    text = f"{who} did not join the collective in which {waited} waited{note}"
    return Clue("rank-absent", text, Confidence.LOW, absent)


def _of_deviating(found: DeviatingRanks, facts: LogFacts) -> Clue:
    """Return the reading of ranks that deviate from the majority of their process group."""
    who, others = named_ranks(found.ranks), named_ranks(found.others)
    if not found.is_waiting:
        if _alone_at_work(found.ranks, facts):
            text = f"{others} waited for {who}, which worked alone for too long: its last collective is {found.at}"
            return Clue("rank0-long-work", text, Confidence.MEDIUM, found.ranks, because=_work(facts))
        text = f"{who} behind: called collective {found.at} last, while {others} waited in {found.others_at}"
        return Clue("rank-absent", text, Confidence.MEDIUM, found.ranks)
    if found.at.number == found.others_at.number:
        at, others_at = str(found.at), str(found.others_at)
        if at == others_at:
            at, others_at = f"{at} of {found.at.elements} elements", f"{found.others_at.elements} elements"
        text = f"{who} waited in another collective than the others: in {at}, {others} in {others_at}"
        because = "operation or size differ at one sequence number"
        return Clue("collective-mismatch", text, Confidence.MEDIUM, found.ranks, because=because)
    text = f"{who} behind: waited in collective {found.at}, while {others} waited in {found.others_at}"
    cause = "collective-mismatch" if found.calls_another else "rank-absent"
    because = "the numbers of one process group differ"
    return Clue(cause, text, Confidence.MEDIUM, found.ranks, because=because)


def _alone_at_work(absent: tuple[int, ...], facts: LogFacts) -> bool:
    """Return True if one rank at most is missing, and data preparation, evaluation or a checkpoint is in the logs."""
    if len(absent) > 1 or facts.ids.isdisjoint(_WORK):
        return False
    works = [each for name in _WORK for each in facts.of(name)]
    if not _is_cut_off(facts) and all(each.origin.rank in facts.ends.victims for each in works):
        return False  # The ranks that wait print these lines.
    return "data-preparation" in facts.ids or absent in ((), (0,))


def _is_cut_off(facts: LogFacts) -> bool:
    """Return True if the watchdog of a rank that waits cuts off the line of another one's work."""
    return any("ProcessGroupNCCL" in each.text for name in _WORK for each in facts.of(name))


def _work(facts: LogFacts) -> str:
    found = facts.of("data-preparation") or facts.of("evaluation")
    return f"the logs show {found[0].text[:60].strip()!r}" if found else ""


def _number(timeouts: CollectiveTimeouts) -> str:
    return ", ".join(str(number) for number in sorted(timeouts.numbers))
