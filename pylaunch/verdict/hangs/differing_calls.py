"""Ranks that call something else than the others as the same collective. Pure.

The first number at which calls differ is the true place: a rank that skips one call and continues fails at the end of
its run only. A difference of places counts only if the calls after it agree again when they are shifted, because
correct programs, too, call one collective from two branches.
"""

from collections.abc import Mapping, Sequence

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.protocol.examination import Collective
from pylaunch.verdict.hangs.calls import GroupCalls, call_place, call_shape, shown_call_place, shown_shape
from pylaunch.verdict.hangs.ranks import WatchedRanks

MOST_CLASSES = 16
"""Different histories of calls that are compared."""

MOST_SHIFT = 3
"""Calls that a rank may have skipped or added."""

SAME_CALLS = "every rank must call the same collectives in the same order, with equal shapes and types"
CONFIRM = "start again with --env TORCH_DISTRIBUTED_DEBUG=DETAIL, which compares every call"


@dataclass(frozen=True)
class _Shift:
    """Calls of `rank` that agree with those of the others after a shift."""

    rank: int
    number: int
    skipped: int
    """Calls that it omitted; negative for calls that it added."""


def differing_calls(world: WatchedRanks, group: GroupCalls) -> HangFinding | None:
    """Return the first difference between the calls of one group in which ranks wait; None if there is none.

    A rank that did not answer the request for all calls in time shows no operations, and is not compared.
    """
    comparable = {rank: made for rank, made in group.calls.items() if all(call.operation for call in made.values())}
    group = replace(group, calls=comparable)
    waiting = group.waiting()
    if not waiting:
        return None
    shift, pending = _first_shift(group), min(waiting.values())
    differs = len({call_shape(calls[pending]) for calls in group.calls.values() if pending in calls}) > 1
    if shift is not None and (not differs or shift.number <= pending):
        return _shifted(world, group, shift)
    return _other_call(world, group, pending) if differs else None


def _other_call(world: WatchedRanks, group: GroupCalls, number: int) -> HangFinding:
    by_shape: dict[tuple[object, ...], list[int]] = {}
    for rank, calls in group.calls.items():
        if number in calls:
            by_shape.setdefault(call_shape(calls[number]), []).append(rank)
    classes = sorted(by_shape.values(), key=lambda ranks: (-len(ranks), min(ranks)))
    usual, others = classes[0], sorted(rank for ranks in classes[1:] for rank in ranks)
    is_clear = 2 * len(usual) > len(group.key.ranks) and len(group.key.ranks) > 2
    firsts = [(ranks, group.calls[min(ranks)][number]) for ranks in (*classes[1:], usual)]
    texts = [f"{world.who(ranks)} called {shown_shape(call)}{shown_call_place(call)}" for ranks, call in firsts]
    return HangFinding(
        HangKind.OTHER_CALL,
        f"#{number} of {group.label} differs: {'; '.join(texts)}",
        Confidence.HIGH if is_clear else Confidence.LOW,
        tuple(others) if is_clear else (),
        world.hosts_of(others) if is_clear else (),
        world.lines(),
        hint=SAME_CALLS if is_clear else f"{SAME_CALLS}; {CONFIRM}",
    )


def _shifted(world: WatchedRanks, group: GroupCalls, shift: _Shift) -> HangFinding:
    others = [rank for rank in group.calls if rank != shift.rank]
    model = next(rank for rank in others if shift.number in group.calls[rank])
    theirs, own = group.calls[model][shift.number], group.calls[shift.rank][shift.number]
    is_clear = len(group.key.ranks) > 2 and 2 * len(others) > len(group.key.ranks)
    kind = HangKind.OTHER_PLACE if shift.skipped > 0 else HangKind.EXTRA_CALL
    verb = "skipped" if shift.skipped > 0 else "added"
    subject = theirs if shift.skipped > 0 else own
    text = (
        f"{world.who([shift.rank])} {verb} {subject.operation} #{shift.number} of {group.label}"
        f"{shown_call_place(subject)}: from there on its calls are shifted by {abs(shift.skipped)}"
    )
    named = (shift.rank,) if is_clear else ()
    return HangFinding(
        kind, text, Confidence.HIGH if is_clear else Confidence.LOW, named, world.hosts_of(named), world.lines(),
        hint=f"look at the condition around that call on rank {shift.rank}; {SAME_CALLS}",
    )  # fmt: skip


def _first_shift(group: GroupCalls) -> _Shift | None:
    alike: dict[object, list[int]] = {}
    for rank, calls in group.calls.items():
        if calls:
            alike.setdefault(
                tuple((number, call_shape(calls[number]), call_place(calls[number])) for number in sorted(calls)), []
            ).append(rank)
    if not 1 < len(alike) <= MOST_CLASSES:
        return None
    alone = [ranks[0] for ranks in alike.values() if len(ranks) == 1]
    found = [_shift(group, rank, [same[0] for same in alike.values() if same[0] != rank]) for rank in alone]
    return min(filter(None, found), key=lambda shift: shift.number, default=None)


def _shift(group: GroupCalls, rank: int, others: Sequence[int]) -> _Shift | None:
    """Return the shift of `rank` against the others, if all others agree with each other."""
    own = group.calls[rank]
    if len(group.calls) < 3:
        return None
    model = max(others, key=group.last)
    theirs = group.calls[model]
    common = sorted(own.keys() & theirs.keys())
    first = next((number for number in common if not _same(own[number], theirs[number])), None)
    if first is None or not all(_agree(group.calls[each], theirs, first) for each in others):
        return None
    for shift in range(1, MOST_SHIFT + 1):
        if _aligned(own, theirs, first, shift):
            return _Shift(rank, first, shift)
        if _aligned(theirs, own, first, shift):
            return _Shift(rank, first, -shift)
    return None


def _same(one: Collective, other: Collective) -> bool:
    places = call_place(one), call_place(other)
    return call_shape(one) == call_shape(other) and (None in places or places[0] == places[1])


def _agree(calls: Mapping[int, Collective], theirs: Mapping[int, Collective], until: int) -> bool:
    numbers = calls.keys() & theirs.keys()
    return until in calls and all(_same(calls[number], theirs[number]) for number in numbers)


def _aligned(short: Mapping[int, Collective], full: Mapping[int, Collective], first: int, shift: int) -> bool:
    """Return True if the calls in `short` from `first` on are those in `full` after `shift` further calls."""
    numbers = [number for number in sorted(short) if number >= first and number + shift in full]
    return bool(numbers) and all(_same(short[number], full[number + shift]) for number in numbers)
