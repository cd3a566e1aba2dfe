"""Collective time-outs over all ranks: the ranks that wait, those behind or different, and those that are silent. Pure.

Numbers of two ranks are compared within one process group only. A rank is named only against a majority of the ranks
that report, and not while it waits in another group, too: then it may be a victim there.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pylaunch.base.dataclass import dataclass, field
from pylaunch.verdict.logs.scan import LogMatch, LogScan
from pylaunch.verdict.logs.signature import Role

TIMEOUTS = ("nccl-watchdog-timeout", "nccl-watchdog-status", "gloo-timeout")
EARLY_SEQUENCE = 8
"""Collectives up to this number belong to the set-up: the first barriers and the broadcast of parameters."""

UNNAMED = ""
"""Group of lines that do not show theirs (torch before 2.3): their numbers may be of any group, and name nobody."""

_DEFAULT_GROUPS = (UNNAMED, "0", "default_pg")
_MUTUAL = ("ALLREDUCE", "ALLGATHER", "REDUCE_SCATTER", "ALLTOALL", "BARRIER")
"""Operations that end on no rank before all ranks of the group have called them.

A rank behind in another operation (a broadcast) may wait for a third rank, whose log is missing.
"""

_EQUAL_SIZES = ("ALLREDUCE", "ALLGATHER", "REDUCE_SCATTER", "BROADCAST", "REDUCE")
"""Operations whose number of elements is the same on all ranks."""

_GUID = re.compile(r"\bGUID (?P<name>[^\s(]{1,60})")
"""Name of a group on all ranks: the numbers `PG ID` are counted on each rank for itself."""

_NAME = re.compile(r"(?P<name>[^\s(]{1,60})")
_VARIANTS = re.compile(r"^_|_BASE$|_COALESCED$")
"""Marks of the variants of an operation: _ALLGATHER_BASE is ALLGATHER."""


@dataclass(frozen=True)
class WaitedCollective:
    """Collective in which a rank waited when it timed out."""

    number: int
    operation: str = ""
    """Operation as torch spells it; "" where only the number is known."""

    elements: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (str(self.number), self.operation)))

    def differs_from(self, other: "WaitedCollective") -> bool:
        """Return True if two collectives are certainly different calls, whatever their numbers are."""
        if not self.operation or not other.operation:
            return False
        if self.operation != other.operation:
            return True
        sizes = (self.elements, other.elements)
        return self.operation in _EQUAL_SIZES and all(sizes) and sizes[0] != sizes[1]


@dataclass(frozen=True)
class DeviatingRanks:
    """Minority of the ranks of a process group, against the majority that waits in one collective."""

    ranks: tuple[int, ...]
    at: WaitedCollective
    """Collective in which the minority waits, or the last one that it called."""

    others: tuple[int, ...]
    others_at: WaitedCollective
    is_waiting: bool
    """False if the minority has not called the collective of the majority, and waits in none."""

    @property
    def calls_another(self) -> bool:
        """True if the minority waits in another operation, or with another size."""
        return self.is_waiting and self.at.differs_from(self.others_at)


@dataclass
class _GroupProgress:
    """Progress of the ranks of one process group, as their time-outs show it."""

    waits: dict[int, WaitedCollective] = field(default_factory=dict)
    enqueued: dict[int, int] = field(default_factory=dict)
    """Last collective that a rank called."""


@dataclass(frozen=True)
class CollectiveTimeouts:
    """Collective time-outs that ranks printed."""

    reporters: frozenset[int]
    silent: tuple[int, ...]
    """Ranks that printed no time-out and no other failure, although their output is in the logs."""

    deviating: DeviatingRanks | None
    numbers: frozenset[int]
    """Numbers of the collectives in which ranks waited, of all groups."""

    different: tuple[WaitedCollective, ...] = ()
    """Calls in which ranks of one group waited at one number, if they certainly differ."""

    @property
    def all_wait_together(self) -> bool:
        """True if all ranks from 0 on report, and wait in the same collective."""
        is_whole = len(self.reporters) > 1 and self.reporters == frozenset(range(max(self.reporters) + 1))
        return is_whole and len(self.numbers) == 1 and not self.different


def collective_timeouts(matches: Iterable[LogMatch], scans: Sequence[LogScan]) -> CollectiveTimeouts:
    """Return the time-outs of all ranks."""
    every = list(matches)
    lines = [match for match in every if match.signature.id in TIMEOUTS and match.origin.rank is not None]
    reporters = frozenset(match.origin.rank for match in lines if match.origin.rank is not None)
    groups = _groups(lines)
    numbers = frozenset(wait.number for each in groups.values() for wait in each.waits.values())
    may_be_silent = set(groups) <= set(_DEFAULT_GROUPS)
    return CollectiveTimeouts(
        reporters,
        _silent(every, scans, reporters) if may_be_silent else (),
        _deviating(groups),
        numbers,
        next(filter(None, map(_different, groups.values())), ()),
    )


def _different(group: _GroupProgress) -> tuple[WaitedCollective, ...]:
    """Return the calls in which the ranks of a group waited at one number; () unless they certainly differ."""
    calls = sorted({*group.waits.values()}, key=lambda each: (str(each), each.elements))
    are_one_number = len({each.number for each in calls}) == 1
    return tuple(calls) if are_one_number and any(each.differs_from(calls[0]) for each in calls) else ()


def _groups(lines: Iterable[LogMatch]) -> dict[str, _GroupProgress]:
    """Return the progress by group. The line of a time-out gets its group from the status with the same number."""
    operations: dict[int, set[WaitedCollective]] = defaultdict(set)
    groups: dict[str, _GroupProgress] = defaultdict(_GroupProgress)
    group_of: dict[tuple[int, int], str] = {}
    for match in lines:
        rank, named = match.origin.rank, match.groups
        assert rank is not None
        if "seq" in named:
            operation = _VARIANTS.sub("", named.get("op", ""))
            wait = WaitedCollective(int(named["seq"]), operation, named.get("numel", ""))
            operations[rank].add(wait)
        if "enqueued" in named:
            found = _GUID.search(printed := named.get("group", "")) or _NAME.match(printed.strip())
            group = UNNAMED if found is None else found["name"]
            enqueued, completed = int(named["enqueued"]), int(named["completed"])
            progress = groups[group]
            progress.enqueued[rank] = max(enqueued, progress.enqueued.get(rank, enqueued))
            if enqueued > completed:
                group_of[rank, completed + 1] = group
                _wait(progress, rank, WaitedCollective(completed + 1))
            if "work" in named:
                group_of[rank, int(named["work"])] = group
    only = next(iter(groups)) if len(groups) == 1 else UNNAMED
    for rank, waits in operations.items():
        for wait in waits:
            _wait(groups[group_of.get((rank, wait.number), only)], rank, wait)
    return dict(groups)


def _wait(progress: _GroupProgress, rank: int, wait: WaitedCollective) -> None:
    """Keep the earliest collective in which a rank waits, with its operation where that is known."""
    known = progress.waits.get(rank)
    order = (wait.number, not wait.operation, wait.operation, wait.elements)
    if known is None or order < (known.number, not known.operation, known.operation, known.elements):
        progress.waits[rank] = wait


def _deviating(groups: Mapping[str, _GroupProgress]) -> DeviatingRanks | None:
    """Return the ranks that deviate; None if several groups disagree about them, or if they wait elsewhere, too."""
    found = [(name, each) for name, progress in groups.items() if (each := _of_group(name, progress)) is not None]
    if len({each.ranks for _, each in found}) != 1:
        return None
    name, deviating = found[0]
    elsewhere = {rank for other, progress in groups.items() if other != name for rank in progress.waits}
    return None if elsewhere & set(deviating.ranks) else deviating


def _of_group(name: str, progress: _GroupProgress) -> DeviatingRanks | None:
    waits = progress.waits
    if name == UNNAMED:
        return None
    reporting = set(waits) | set(progress.enqueued)
    number, times = Counter(wait.number for wait in waits.values()).most_common(1)[0] if waits else (0, 0)
    if 2 * times <= len(reporting) or len(reporting) < 3:
        return None
    of_most = {rank: wait for rank, wait in waits.items() if wait.number == number}
    late = tuple(sorted(rank for rank in reporting - set(waits) if progress.enqueued[rank] < number))
    behind = tuple(sorted(rank for rank, wait in waits.items() if wait.number < number))
    usual = _most_common(of_most.values())
    others = tuple(sorted(of_most))
    if late and not behind:
        last = WaitedCollective(min(progress.enqueued[rank] for rank in late))
        return DeviatingRanks(late, last, others, usual, is_waiting=False)
    if behind and not late:
        at = {waits[rank] for rank in behind}
        if len(at) != 1 or next(iter(at)).operation not in _MUTUAL:
            return None
        return DeviatingRanks(behind, next(iter(at)), others, usual, is_waiting=True)
    if behind or late:
        return None
    minority = tuple(sorted(rank for rank, wait in of_most.items() if wait.differs_from(usual)))
    same = tuple(rank for rank in others if rank not in minority)
    if not minority or 2 * len(same) <= len(reporting):
        return None
    at = {waits[rank] for rank in minority}
    return DeviatingRanks(minority, min(at, key=str), same, usual, is_waiting=True)


def _most_common(waits: Iterable[WaitedCollective]) -> WaitedCollective:
    every = [wait for wait in waits if wait.operation] or list(waits)
    return min(Counter(every).items(), key=lambda each: (-each[1], str(each[0]), each[0].elements))[0]


def _silent(matches: Iterable[LogMatch], scans: Sequence[LogScan], reporters: frozenset[int]) -> tuple[int, ...]:
    """Return the ranks whose output is in the logs and shows no failure; () if they are too many to mean something."""
    if len(reporters) < 2:
        return ()
    present = {scan.origin.rank for scan in scans if scan.origin.rank is not None}
    present |= {match.origin.rank for match in matches if match.origin.rank is not None}
    present |= {rank for scan in scans for rank in scan.writers}
    present |= {origin.rank for scan in scans for origin in scan.progress if origin.rank is not None}
    failing = {
        match.origin.rank
        for match in matches
        if match.signature.role in (Role.ROOT, Role.SYMPTOM) and match.origin.rank is not None
    }
    failing |= {unit.origin.rank for scan in scans for unit in scan.exceptions if unit.origin.rank is not None}
    if len(scans) == 1 and scans[0].origin.rank is None:
        present |= set(range(max(reporters) + 1))  # One log that ranks share is the log of all of them.
    silent = present - failing - reporters
    return () if len(silent) > max(1, len(present) // 4) else tuple(sorted(silent))
