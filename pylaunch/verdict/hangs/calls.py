"""Calls of the ranks of each process group, by rank and sequence number. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.protocol.examination import Collective, ProcessGroup, RankView
from pylaunch.verdict.hangs.stacks import own_frame

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

    @property
    def has_majority(self) -> bool:
        """More than half of the ranks answered."""
        return 2 * len(self.calls) > len(self.key.ranks)

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
