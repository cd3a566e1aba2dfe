"""Views of the ranks of a run: its nodes take them of a live run, and its record has those of a run that is over."""

from collections.abc import Collection, Iterable, Mapping

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.clock import ClockOffset
from pylaunch.model.run import RunRecord
from pylaunch.protocol.examination import RankView
from pylaunch.protocol.node_evidence import HostEvidence
from pylaunch.runs.connect.bounds import ConnectionEnded, Lost
from pylaunch.runs.connect.fleet import Fleet, Question, on_fleet, raise_if_none
from pylaunch.store import runs
from pylaunch.transport.interrupts import Interrupter, InterruptSource


def rank_view(host: str, view: RankView, clock: ClockOffset) -> RankView:
    """Return the view that `host` reports, its time on the controller's clock."""
    return replace(view, host=host, time=clock.to_ours(view.time), uncertainty_s=clock.uncertainty)


def host_evidence(host: str, facts: HostEvidence, clock: ClockOffset) -> HostEvidence:
    """Return the facts that `host` reports, their times on the controller's clock."""
    return replace(
        facts,
        host=host,
        time=clock.to_ours(facts.time),
        uncertainty_s=clock.uncertainty,
        kernel=tuple(replace(event, time=clock.to_ours(event.time)) for event in facts.kernel),
    )


@dataclass(frozen=True)
class RunSample:
    """Answers of the nodes to one request."""

    views: tuple[RankView, ...]
    """By rank; those of nodes that have not answered are missing."""

    facts: tuple[HostEvidence, ...] = ()
    """By host, if the request includes them."""


class ViewRequest(Question[protocol.Examined]):
    """A request for views of the ranks of some nodes, until each has sent all of them or is gone."""

    ends = (protocol.Finished, protocol.Failed, ConnectionEnded, Lost)

    def __init__(self, fleet: Fleet, request: protocol.Examine) -> None:
        super().__init__(protocol.Examined)
        self._fleet = fleet
        self._request = request
        self._views: dict[int, RankView] = {}
        self._facts: dict[str, HostEvidence] = {}

    @property
    def sample(self) -> RunSample:
        """Views and facts so far."""
        return RunSample(
            tuple(self._views[rank] for rank in sorted(self._views)),
            tuple(self._facts[host] for host in sorted(self._facts)),
        )

    def take(self, host: str, message: object) -> bool:
        """Take `message` if it belongs to the answer of a host to this request, and report whether it does."""
        answers = protocol.RankView | protocol.HostEvidence | protocol.Examined
        if not isinstance(message, answers) or message.serial != self._request.serial:
            return False
        if isinstance(message, protocol.RankView):
            self._views[message.rank] = rank_view(host, message, self._fleet.clock(host))
        elif isinstance(message, protocol.Examined):
            return super().take(host, message)
        elif self._request.node:
            self._facts.setdefault(host, host_evidence(host, message, self._fleet.clock(host)))
        return True


async def examine(fleet: Fleet, hosts: Iterable[str], request: protocol.Examine, within_s: float) -> ViewRequest:
    """Ask `hosts` for the views of their ranks, and wait `within_s` seconds at most."""
    return await fleet.ask(dict.fromkeys(hosts, request), ViewRequest(fleet, request), within_s)


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
        failures = await fleet.connect(hosts, "attach")
        missing = {name: str(error) for name, error in failures.items()}
        raise_if_none(record, missing, of=hosts)
        request = protocol.Examine(SERIAL, call_sites, within_s=ANSWERS_S)
        asked = await examine(fleet, fleet.links, request, ARRIVES_S)
        missing |= dict.fromkeys(asked.waiting, f"no answer in {ARRIVES_S:g} s")
        views = tuple(view for view in asked.sample.views if view.rank in ranks)
        return StacksReport(record, views, missing, is_recorded=False)

    return on_fleet(record.plan, record.agent, lambda fleet: fleet.unless_interrupted(work(fleet)), source=source)
