"""Evidence about a failed run from all nodes, and what can be derived from it without judging. Pure."""

from collections.abc import Iterable, Mapping

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.model.diagnosis.finding import ATTESTATION, Finding
from pylaunch.model.hostset import fold
from pylaunch.protocol.examination import RankView
from pylaunch.protocol.node_evidence import SIGNALLED, HostEvidence, RankEnd, RankState

SAME_MOMENT_S = 0.1
"""A victim this much earlier than a failure may be its consequence: a rank closes its sockets before it ends."""


@dataclass(frozen=True)
class Evidence:
    """Reports of the nodes of a failed run."""

    ranks: Mapping[str, frozenset[int]]
    """Ranks by host."""

    ends: tuple[RankEnd, ...] = ()
    states: Mapping[str, tuple[RankState, ...]] = field(default_factory=dict)
    """Ranks that had not ended when their host began to stop, by host; absent for hosts that did not report them."""

    lost: Mapping[str, str] = field(default_factory=dict)
    """Reasons of the hosts with whose agents there is no contact, by host."""

    hosts: tuple[HostEvidence, ...] = ()
    """Facts of each host when it began to stop."""

    findings: tuple[Finding, ...] = ()
    """Warnings of the start, also about facts in which the nodes differ (ATTESTATION)."""

    views: tuple[RankView, ...] = ()
    """Ranks that ran when the first one failed."""

    answering: frozenset[str] = frozenset()
    """Hosts of `lost` that answer: only their agent is lost."""

    restarted: frozenset[str] = frozenset()
    """Hosts of `answering` that were booted again during the run."""

    stopping: str = ""
    """Reason of the first node that stopped, after its name: "n2: rank 1 was killed by SIGTERM"."""

    @property
    def differences(self) -> tuple[str, ...]:
        """Facts in which the nodes differed at the start: "n2: nccl: 2.28, expected 2.27 as on n[1,3]"."""
        return tuple(f"{fold(each.hosts)}: {each.text}" for each in self.findings if each.check == ATTESTATION)

    @property
    def signalled(self) -> str | None:
        """Host whose agent received a signal to end before any other reason to stop."""
        return self.stopping.partition(": ")[0] if self.stopping.endswith(SIGNALLED) else None

    @property
    def failures(self) -> list[RankEnd]:
        """Ends that nobody ordered, in an order that does not depend on when they were reported."""
        return sorted((end for end in self.ends if end.failed), key=_order)

    @property
    def is_complete(self) -> bool:
        """True if the fate of every rank before the stop is known, except on lost hosts."""
        known = {end.rank for end in self.ends if not end.stopped}
        known |= {state.rank for states in self.states.values() for state in states}
        return all(ranks <= known for host, ranks in self.ranks.items() if host not in self.lost)

    @property
    def with_set_clocks(self) -> "Evidence":
        """The same with ends that are as uncertain as the clock of their host, which was perhaps set after its
        difference to ours was measured."""
        steps = {each.host: abs(each.clock_step_s) for each in self.hosts}
        ends = (replace(end, uncertainty_s=end.uncertainty_s + steps.get(end.host, 0.0)) for end in self.ends)
        return replace(self, ends=tuple(ends))

    def of(self, host: str) -> HostEvidence | None:
        """Return the facts of `host`; None without a report."""
        return next((each for each in self.hosts if each.host == host), None)


def _order(end: RankEnd) -> tuple[float, str, int]:
    return end.time, end.host, -1 if end.rank is None else end.rank


def precedes(first: RankEnd, second: RankEnd, within_s: float = 0.0) -> bool:
    """Return True if `first` certainly ended before `second`, or at most `within_s` later.

    Two clocks order times only beyond their uncertainty.
    """
    slack = 0.0 if first.host == second.host else first.uncertainty_s + second.uncertainty_s
    return first.time + slack < second.time + within_s


def lost_contact(hosts: Iterable[str], why: str, *, answer: bool) -> str:
    """Return a clause about `hosts`, whose agents are lost; the hosts themselves `answer`, or are lost with them."""
    names = [*hosts]
    verb = "answers" if len(names) == 1 else "answer"
    return f"{fold(names)} {verb}, but {why}" if answer else f"{fold(names)} lost: {why}"


def seconds(value: float) -> str:
    """Return a duration for a person: "500 ms", "2.5 s", "31 s", "12 min"."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 120:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.0f} h"
