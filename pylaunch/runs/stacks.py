"""Views of the ranks of a run: taken now of a live run, from its record otherwise."""

import asyncio
from collections.abc import Collection, Mapping

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass
from pylaunch.model.run import RunRecord
from pylaunch.protocol.examination import RankView
from pylaunch.runs.connect.fleet import ConnectionEnded, Fleet, Interrupted
from pylaunch.runs.connect.interruptible import Interrupter, InterruptSource, on_fleet
from pylaunch.runs.existing.reach import raise_if_none
from pylaunch.runs.follow.rank_views import ViewRequest
from pylaunch.store import runs

ANSWERS_S = 2.0
"""Time for the ranks to answer; `pylaunch stacks` can wait longer than a run that is about to stop."""

ARRIVES_S = 10.0
"""Time for the answers of a node to arrive."""

SERIAL = 1


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

    `call_sites` adds where each collective was called. An interrupt ends the request, and nothing else. A node on which
    the run is over has no ranks to report. Raises ClusterNotReadyError when no node can be reached.
    """
    if record.outcome is not None:
        recorded = (view for view in runs.views(record.plan.run) if view.rank in ranks)
        return StacksReport(record, tuple(recorded), {}, is_recorded=True)
    hosts = [node.host.name for node in record.plan.nodes if any(rank.rank in ranks for rank in node.ranks)]
    source = Interrupter() if interrupts is None else interrupts

    async def work(fleet: Fleet) -> StacksReport:
        failures = await fleet.unless_interrupted(fleet.connect(hosts, "attach"))
        missing = {name: str(error) for name, error in failures.items()}
        raise_if_none(record, missing, of=hosts)
        asked = tuple(fleet.links)
        request = ViewRequest(protocol.Examine(SERIAL, call_sites, within_s=ANSWERS_S), asked)
        try:
            async with asyncio.timeout(ARRIVES_S):
                await fleet.broadcast(request.request, asked)
                while request.waiting:
                    host, message = await fleet.inbox.hear()
                    if isinstance(message, Interrupted):
                        raise KeyboardInterrupt(str(message))
                    if isinstance(message, ConnectionEnded | protocol.Failed | protocol.Finished):
                        request.waiting.discard(host)
                    request.take(host, message, fleet.clock(host))
        except TimeoutError:
            missing |= dict.fromkeys(request.waiting, f"no answer in {ARRIVES_S:g} s")
        views = tuple(view for view in request.sample.views if view.rank in ranks)
        return StacksReport(record, views, missing, is_recorded=False)

    return on_fleet(record.plan, record.agent, work, source=source)
