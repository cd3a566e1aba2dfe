"""Last lines of ranks beside each other: the one rank that stood at another line than all others held them up. Pure.

A run that is stopped from outside has such a rank, too: it counts where the log shows that nothing happened for long,
or that this rank was at work or held by something while the others waited for it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from statistics import median

from pylaunch.features.explain.judgement.comparison.beside import PrintedLine, Shape, Shapes
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.model.hostset import named_ranks
from pylaunch.verdict.logs.scan import LogScan
from pylaunch.verdict.logs.victims.rank_ends import AT_WORK, ENDED

LONGEST_STEP_S = 5.0
STEPS = 10
"""Typical times between two lines after which nothing happens any more."""

_HELD = re.compile(r"(?i)\b(?:acquir\w{1,4}|lock\w{0,4}|wait\w{0,4} for|(?:re)?filling|open\w{0,4}|connect\w{0,4})\b")
"""Words of a rank that waits for a file, a lock or a server."""

_STOPS = re.compile(
    r"(?i)SIGTERM|death signal|(?:time|wall|run) ?limit|walltime|closing signal|timeout: sending|CANCELLED"
)
_WAITS = re.compile(r"(?i)\b(?:wait\w{0,4}|barrier|sync\w{0,12}|(?:all_?)?(?:gather|reduce)|broadcast)\b")


def read(shapes: Shapes, scans: Sequence[LogScan]) -> Iterator[Indication]:
    """Yield the rank that stood alone."""
    if len(scans) != 1:
        return
    stop = next((line.line for line in scans[0].tail if _STOPS.search(line.text)), scans[0].lines + 1)
    last: dict[int, tuple[Shape, PrintedLine]] = {}
    for shape, parties in shapes.items():
        for party, lines in parties.items():
            before = [each for each in lines if each.line.line < stop]
            if party.rank is not None and before:
                last[party.rank] = max(last.get(party.rank, (shape, before[-1])), (shape, before[-1]), key=_number)
    groups: dict[Shape, list[int]] = {}
    for rank, (shape, _) in last.items():
        groups.setdefault(shape, []).append(rank)
    order = sorted(groups.values(), key=len)
    if len(order) != 2 or len(order[0]) != 1 or len(order[1]) < 2:
        return
    last_line = max(each.line.line for _, each in last.values())
    if any(ENDED.search(line.text) for line in scans[0].tail if line.line > last_line):
        return
    rank, others = order[0][0], tuple(sorted(order[1]))
    alone, usual = last[rank][1], last[others[0]][1]
    is_held = AT_WORK.search(alone.line.text) is not None or _HELD.search(alone.line.text) is not None
    is_awaited = is_held and _WAITS.search(usual.line.text) is not None
    is_sure = is_awaited or _is_over(scans[0], last_line)
    if rank == 0 and not is_sure:
        return  # Programs let rank 0 alone report.
    cause = "data-wait" if is_held else "rank-absent"
    text = f"rank {rank} stood at another line than {named_ranks(others)} until the end: {alone.shown}"
    yield Indication(cause, text, alone.excerpt, ranks=(rank,), others=(usual.excerpt,), is_beside=not is_sure,
                     stalls=True, may_end=not is_awaited, because=f"the others stood at {usual.shown}")  # fmt: skip


def _number(found: tuple[Shape, PrintedLine]) -> int:
    return found[1].line.line


def _is_over(scan: LogScan, last_line: int) -> bool:
    """Return True if the log ends long after the last lines of the ranks, for the times between their lines."""
    times = [line.time for line in scan.sampled if line.time is not None and line.line <= last_line]
    end = next((line.time for line in reversed(scan.tail) if line.time is not None and line.line > last_line), None)
    if end is None or len(times) < STEPS or len({each.zone for each in (*times, end)}) > 1:
        return False
    seconds = sorted(each.seconds for each in times)
    steps = [after - before for before, after in itertools.pairwise(seconds)]
    return end.seconds - seconds[-1] > max(LONGEST_STEP_S, STEPS * median(steps))
