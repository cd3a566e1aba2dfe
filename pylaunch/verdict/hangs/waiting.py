"""Wait-for edges between ranks: who waits in a collective, and who has not called it. Pure."""

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass, field
from pylaunch.verdict.hangs.calls import GroupCalls
from pylaunch.verdict.hangs.snapshot import Snapshot
from pylaunch.verdict.hangs.stacks import distributed_call, main_stack


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


def wait_graph(snapshot: Snapshot) -> WaitGraph:
    """Return the graph of the last views."""
    pending = [call for group in snapshot.groups for call in _pending_calls(snapshot, group)]
    edges: dict[int, frozenset[int]] = {}
    for call in pending:
        for rank in call.waiting:
            if call.late:
                edges[rank] = edges.get(rank, frozenset()) | call.late
    return WaitGraph(tuple(pending), edges)


def _pending_calls(snapshot: Snapshot, group: GroupCalls) -> list[PendingCall]:
    """Return the pending calls of `group`, by number. With asynchronous calls, the lowest number of a rank counts."""
    found = []
    waiting = group.waiting()
    absent = {rank for rank in group.unanswered if _is_elsewhere(snapshot, rank)}
    for number in sorted({*waiting.values()}):
        ranks = frozenset(rank for rank, pending in waiting.items() if pending == number)
        late = frozenset(rank for rank in group.calls if group.last(rank) < number) | absent
        found.append(PendingCall(group, number, ranks, late))
    return found


def is_seen_waiting(snapshot: Snapshot, rank: int) -> bool:
    """Return True if the main thread of `rank` is in a call of torch.distributed, or its stack is unknown.

    A pending call alone is no proof: it may be asynchronous, and the rank may be stuck in other code.
    """
    view = snapshot.views.get(rank)
    return view is None or main_stack(view) is None or bool(distributed_call(view))


def _is_elsewhere(snapshot: Snapshot, rank: int) -> bool:
    """Return True if `rank` answered, does not know the group, and is in no call of torch.distributed."""
    view = snapshot.views.get(rank)
    return view is not None and view.source == "helper" and main_stack(view) is not None and not distributed_call(view)
