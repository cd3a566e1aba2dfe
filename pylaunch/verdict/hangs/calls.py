"""Calls of the ranks of each process group by sequence number, and the ranks that wait in them for others. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.protocol.examination import Collective, ProcessGroup, RankView
from pylaunch.verdict.hangs.stacks import distributed_call, main_stack, own_frame

DEFAULT_GROUP = "default_pg"
"""Description that torch gives the group of all ranks."""

UNEQUAL_SIZES = frozenset(
    {"all_to_all", "all_to_all_base", "alltoall", "alltoall_base", "gather", "scatter", "all_gather_v"}
)
"""Operations whose sizes differ between ranks in correct programs."""


@dataclass(frozen=True)
class GroupKey:
    """Identity of a process group: `split_group` gives one name to several sets of ranks."""

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class GroupCalls:
    """Collectives of one group, as its ranks recorded them."""

    key: GroupKey
    description: str
    calls: Mapping[int, Mapping[int, Collective]]
    """Rank → sequence number → call; a key for each rank of the group that answered."""

    @property
    def label(self) -> str:
        """Name for messages: "dp", or "the default group"."""
        if self.description == DEFAULT_GROUP:
            return "the default group"
        if self.description in ("", "undefined"):
            return f"group {self.key.name}"
        return self.description

    @property
    def unanswered(self) -> tuple[int, ...]:
        """Ranks of the group whose calls are unknown."""
        return tuple(rank for rank in self.key.ranks if rank not in self.calls)

    def last(self, rank: int) -> int:
        """Return the number of the last call of `rank`; 0 before the first."""
        return max(self.calls[rank], default=0)

    def pending(self, rank: int) -> int | None:
        """Return the lowest number that `rank` called and that is not over; None if all are over."""
        return min((number for number, call in self.calls[rank].items() if not call.is_retired), default=None)

    def waiting(self) -> dict[int, int]:
        """Return the ranks with a pending call, and its number."""
        return {rank: number for rank in self.calls if (number := self.pending(rank)) is not None}

    def shown_call(self, number: int, rank: int) -> str:
        """Return "all_reduce #412 of dp", as `rank` called it."""
        call = self.calls[rank].get(number)
        operation = "collective" if call is None else call.operation or "collective"
        return f"{operation} #{number} of {self.label}"


def group_calls(views: Iterable[RankView], world: Sequence[int]) -> list[GroupCalls]:
    """Return the calls of every group that a view knows. `world`: all ranks of the run."""
    found: dict[GroupKey, tuple[str, dict[int, dict[int, Collective]]]] = {}
    for view in views:
        if view.rank not in world:
            continue
        keys = {}
        for group in view.groups:
            key = GroupKey(group.name, _members(group, world))
            if view.rank in key.ranks:
                keys[group.name] = key
                found.setdefault(key, (group.description, {}))[1].setdefault(view.rank, {})
        for call in view.collectives:
            known = keys.get(call.group)
            if known is not None and not call.is_p2p and call.sequence > 0:
                found[known][1][view.rank].setdefault(call.sequence, call)
    return [GroupCalls(key, description, calls) for key, (description, calls) in found.items()]


def _members(group: ProcessGroup, world: Sequence[int]) -> tuple[int, ...]:
    """Return the ranks of `group`. A group that does not report them counts as that of all ranks."""
    return tuple(sorted({*group.ranks} & {*world})) if group.ranks else tuple(sorted(world))


def call_shape(call: Collective) -> tuple[object, ...]:
    """Return the part of a call that must be equal on all ranks of a correct program."""
    if call.operation in UNEQUAL_SIZES:
        return (call.operation,)
    if "gather" in call.operation or "scatter" in call.operation:
        uneven = len({*call.output_sizes}) > 1 or len({*call.input_sizes}) > 1
        return (call.operation,) if uneven else (call.operation, call.input_sizes, call.dtypes)
    return call.operation, call.input_sizes, call.dtypes


def call_place(call: Collective) -> tuple[str, str, int] | None:
    """Return function, file name and line of the innermost frame of the user's code; None if unknown."""
    frame = own_frame(call.call_site)
    return None if frame is None else (frame.function, frame.path.rpartition("/")[2], frame.line)


def shown_shape(call: Collective) -> str:
    """Return "all_reduce of [1024] Float"."""
    sizes = " ".join(str([*each]) for each in call.input_sizes)
    what = " ".join(filter(None, (sizes, " ".join(dict.fromkeys(call.dtypes)))))
    return f"{call.operation} of {what}" if what else call.operation


def shown_call_place(call: Collective) -> str:
    """Return " in train_step (train.py:70)"; "" if unknown."""
    place = call_place(call)
    return "" if place is None else f" in {place[0]} ({place[1]}:{place[2]})"


# Views that have the last collective of each group only, which costs a rank least, beside whole ones. Counters are of
# the former alone: where a rank also sends and receives on NCCL, torch counts these in the status of a group.


Counters = Mapping[str, tuple[int, int | None]]
"""Number of the last call, and of the pending one, of each group by name."""


def is_brief(view: RankView) -> bool:
    """Return True if the collectives of `view` are the last ones only: an entry without its operation."""
    return any(not call.operation for call in view.collectives)


def group_counters(views: Iterable[RankView]) -> dict[int, Counters]:
    """Return the counters of each rank."""
    listed = list(views)
    found: dict[int, dict[str, tuple[int, int | None]]] = {}
    for group in group_calls(listed, range(1 + max((view.rank for view in listed), default=0))):
        for rank in group.calls:
            found.setdefault(rank, {})[group.key.name] = (group.last(rank), group.pending(rank))
    return dict(found)


def with_calls(views: Iterable[RankView], whole: Iterable[RankView]) -> tuple[RankView, ...]:
    """Return `views`, brief ones with the calls in the last `whole` view of the same rank, which are older by then.

    The caller knows that the ranks have not advanced between the two.
    """
    calls = {view.rank: view for view in whole if view.collectives and not is_brief(view)}
    return tuple(
        replace(view, groups=calls[view.rank].groups, collectives=calls[view.rank].collectives)
        if is_brief(view) and view.rank in calls
        else view
        for view in views
    )


# Wait-for edges between ranks


@dataclass(frozen=True)
class PendingCall:
    """A collective that some ranks of its group called, and that is not over."""

    group: GroupCalls
    number: int
    waiting: frozenset[int]
    late: frozenset[int]
    """Ranks that answered and have not called it."""

    @property
    def shown(self) -> str:
        """Name of the call, "all_reduce #412 of dp"."""
        return self.group.shown_call(self.number, min(self.waiting))


@dataclass(frozen=True)
class WaitGraph:
    """All pending calls, and the ranks that they depend on."""

    pending: tuple[PendingCall, ...]
    waits_for: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Rank that waits → ranks that have not called its collective."""

    @property
    def roots(self) -> frozenset[int]:
        """Ranks that others wait for, and that wait for no rank."""
        targets = frozenset(rank for late in self.waits_for.values() for rank in late)
        return targets - self.waits_for.keys()

    @property
    def waiting(self) -> frozenset[int]:
        """Ranks that wait for another rank."""
        return frozenset(self.waits_for)


def wait_graph(groups: Iterable[GroupCalls], views: Mapping[int, RankView]) -> WaitGraph:
    """Return the graph of the calls of `groups`; `views`: last view of each rank."""
    pending = tuple(call for group in groups for call in _pending_calls(group, views))
    edges: dict[int, frozenset[int]] = {}
    for call in pending:
        for rank in call.waiting if call.late else ():
            edges[rank] = edges.get(rank, frozenset()) | call.late
    return WaitGraph(pending, edges)


def _pending_calls(group: GroupCalls, views: Mapping[int, RankView]) -> list[PendingCall]:
    """Return the pending calls of `group`, by number. With asynchronous calls, the lowest number of a rank counts."""
    found = []
    waiting = group.waiting()
    absent = {rank for rank in group.unanswered if _is_elsewhere(views.get(rank))}
    for number in sorted({*waiting.values()}):
        ranks = frozenset(rank for rank, pending in waiting.items() if pending == number)
        late = frozenset(rank for rank in group.calls if group.last(rank) < number) | absent
        found.append(PendingCall(group, number, ranks, late))
    return found


def is_seen_waiting(view: RankView | None) -> bool:
    """Return True if the main thread of a rank is in a call of torch.distributed, or its stack is unknown.

    A pending call alone is no proof: it may be asynchronous, and the rank may be stuck in other code.
    """
    return view is None or main_stack(view) is None or bool(distributed_call(view))


def _is_elsewhere(view: RankView | None) -> bool:
    """Return True if a rank answered, does not know the group, and is in no call of torch.distributed."""
    return view is not None and view.source == "helper" and not is_seen_waiting(view)
