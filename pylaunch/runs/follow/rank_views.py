"""Views of ranks from the messages of their nodes.

To take the views of a live run: `RunExaminer` while a follower follows it, `runs.stacks` otherwise.
"""

from collections.abc import Iterable

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.clock import ClockOffset
from pylaunch.protocol.examination import RankView
from pylaunch.protocol.node_evidence import HostEvidence


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


class ViewRequest:
    """Views that were requested from hosts, until every host has answered or is gone."""

    def __init__(self, request: protocol.Examine, hosts: Iterable[str]) -> None:
        self.request = request
        self.waiting = set(hosts)
        """Hosts that have not sent all of their views."""

        self._views: dict[int, RankView] = {}
        self._facts: dict[str, HostEvidence] = {}

    @property
    def sample(self) -> RunSample:
        """Views and facts so far."""
        return RunSample(
            tuple(self._views[rank] for rank in sorted(self._views)),
            tuple(self._facts[host] for host in sorted(self._facts)),
        )

    def take(self, host: str, message: object, clock: ClockOffset) -> None:
        """Add a message of `host` if it is an answer to this request."""
        answers = protocol.RankView | protocol.HostEvidence | protocol.Examined
        if not isinstance(message, answers) or message.serial != self.request.serial:
            return
        if isinstance(message, protocol.RankView):
            self._views[message.rank] = rank_view(host, message, clock)
        elif isinstance(message, protocol.HostEvidence) and self.request.node:
            self._facts.setdefault(host, host_evidence(host, message, clock))
        elif isinstance(message, protocol.Examined):
            self.waiting.discard(host)
