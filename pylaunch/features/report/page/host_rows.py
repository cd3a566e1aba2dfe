"""Evidence of hosts for a report: kernel messages, stuck connections and counters as lines. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pylaunch.base.dataclass import dataclass
from pylaunch.features.report.page.timeline import seconds_text
from pylaunch.model.outcome import Outcome
from pylaunch.model.plan import RunPlan
from pylaunch.protocol.node_evidence import HostEvidence

MOST_LINES = 40
"""Lines of one kind that are shown for one host."""


@dataclass(frozen=True)
class HostLines:
    """One host with what its evidence says."""

    host: str
    lines: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def summary(self) -> str:
        """Count of the lines, or of the facts that are not known where there is no line."""
        number, noun = (len(self.lines), "line") if self.lines else (len(self.missing), "unknown fact")
        return f"{number} {noun}{'' if number == 1 else 's'}"


def host_lines(plan: RunPlan, outcome: Outcome | None, begun: float) -> tuple[HostLines, ...]:
    """Return the hosts with evidence or missing facts, in the order of the plan; times count from `begun`."""
    hosts = () if outcome is None else outcome.hosts
    order = plan.in_order({each.host for each in hosts})
    rows = (
        HostLines(each.host, tuple(_lines(each, begun)), each.missing[:MOST_LINES])
        for each in sorted(hosts, key=lambda each: order.index(each.host))
    )
    return tuple(row for row in rows if row.lines or row.missing)


def _lines(facts: HostEvidence, begun: float) -> Iterable[str]:
    for event in facts.kernel[:MOST_LINES]:
        rank = "" if event.rank is None else f"rank {event.rank}: "
        yield f"kernel, {seconds_text(event.time - begun)} after the start: {rank}{event.text}"
    for each in facts.stuck[:MOST_LINES]:
        owner = "a connection" if each.rank is None else f"rank {each.rank}"
        yield (
            f"{owner} to {each.peer} port {each.peer_port}: {each.state}, send queue {each.send_queue}, receive queue "
            f"{each.receive_queue}, {each.retransmits} retransmissions without an answer"
        )
    for name, rise in list(facts.rises.items())[:MOST_LINES]:
        yield f"{name}: +{rise}"
    if facts.clock_step_s:
        yield f"its clock was set by {facts.clock_step_s:+.3f} s"
