"""Views of the ranks of a run: taken now of a live run, from its record otherwise."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.model.run import RunRecord
from pylaunch.protocol.examination import RankView
from pylaunch.runs.connect.interruptible import Interrupter, InterruptSource
from pylaunch.runs.existing.examine import examine
from pylaunch.store import runs


@dataclass(frozen=True)
class StacksReport:
    """Views of ranks by rank."""

    record: RunRecord
    views: tuple[RankView, ...]
    missing: Mapping[str, str]
    """Reasons of nodes that did not report their ranks, by host."""

    is_recorded: bool
    """The run is over: its nodes took the views before they stopped the ranks."""


def stacks(
    record: RunRecord, ranks: Collection[int], interrupts: InterruptSource | None = None, *, call_sites: bool = False
) -> StacksReport:
    """Return a view of each of `ranks` that runs; of a run that is over, the views in its record.

    `call_sites` adds where each collective was called. Raises ClusterNotReadyError when no node can be reached.
    """
    if record.outcome is not None:
        recorded = (view for view in runs.views(record.plan.run) if view.rank in ranks)
        return StacksReport(record, tuple(recorded), {}, is_recorded=True)
    hosts = [node.host.name for node in record.plan.nodes if any(rank.rank in ranks for rank in node.ranks)]
    source = Interrupter() if interrupts is None else interrupts
    found = examine(record, hosts, source, call_sites=call_sites)
    views = tuple(view for view in found.views if view.rank in ranks)
    return StacksReport(record, views, found.missing, is_recorded=False)
