"""Cause behind ranks that waited: time-outs of collectives and lost connections, by facts across ranks. Pure.

The ranks that print these lines are victims. Without a root in the logs, this names the rank that printed none, lags
behind or differs, or nobody.
"""

from __future__ import annotations

from pylaunch.explain.logs.facts import CollectiveTimeouts, LogFacts
from pylaunch.explain.logs.reading import Clue
from pylaunch.explain.logs.scan import LogMatch
from pylaunch.model.confidence import Confidence
from pylaunch.model.hostset import fold_ranks

EARLY_SEQUENCE = 8
"""Collectives up to this number belong to the set-up: the first barriers and the broadcast of parameters."""

TIMEOUTS = ("nccl-watchdog-timeout", "nccl-watchdog-status", "gloo-timeout")


def read_waiting(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the reading of a time-out of a collective."""
    timeouts = facts.timeouts
    if timeouts.differing:
        who = _named(timeouts.differing)
        text = f"{who} waited in another collective than the others"
        because = "operation or size differ at one sequence number"
        return Clue("collective-mismatch", text, Confidence.MEDIUM, timeouts.differing, because=because)
    silent = tuple(sorted(timeouts.silent))
    lagging = timeouts.laggards
    absent = silent or lagging
    waited = _waited(match, timeouts)
    who = _named(absent) if absent else "a rank"
    how = "printed no time-out" if silent else "is behind the others"
    note = f": {who} {how}" if absent else ""
    if _alone_at_work(absent, facts, timeouts):
        text = f"{waited} waited for {'rank 0' if absent in ((), (0,)) else who}, which worked alone for too long{note}"
        return Clue("rank0-long-work", text, Confidence.MEDIUM if absent else Confidence.LOW, absent,
                       because=_work(facts))  # fmt: skip
    if _in_the_loop(timeouts):
        text = f"{who} left the loop or took another path while {waited} waited in collective {_number(timeouts)}{note}"
        return Clue("uneven-data", text, Confidence.LOW, absent, because="the collective is one of the training loop")
    text = f"{who} did not join the collective in which {waited} waited{note}"
    return Clue("rank-absent", text, Confidence.MEDIUM if absent else Confidence.LOW, absent)


def _alone_at_work(absent: tuple[int, ...], facts: LogFacts, timeouts: CollectiveTimeouts) -> bool:
    """Return True if one rank at most is missing, and data preparation, evaluation or a checkpoint is in the logs."""
    if len(absent) > 1 or not facts.ids & {"data-preparation", "evaluation"}:
        return False
    return "data-preparation" in facts.ids or absent in ((), (0,))


def _in_the_loop(timeouts: CollectiveTimeouts) -> bool:
    """Return True if all ranks wait in the same collective, which is a late one, and none ran ahead of the GPU."""
    numbers = {int(sequence) for sequence, _, _ in timeouts.operations.values()}
    ahead = any(value > timeouts.completed.get(rank, value) + 1 for rank, value in timeouts.enqueued.items())
    return len(numbers) == 1 and min(numbers) > EARLY_SEQUENCE and not ahead


def _work(facts: LogFacts) -> str:
    found = facts.of("data-preparation") or facts.of("evaluation")
    return f"the logs show {found[0].text[:60].strip()!r}" if found else ""


def _waited(match: LogMatch, timeouts: CollectiveTimeouts) -> str:
    ranks = tuple(sorted(timeouts.reporters))
    return _named(ranks) if ranks else "the ranks that print the time-out"


def _number(timeouts: CollectiveTimeouts) -> str:
    return ", ".join(sorted({sequence for sequence, _, _ in timeouts.operations.values()}))


def _named(ranks: tuple[int, ...]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {fold_ranks(ranks)}"
