"""Rows of a report: what hosts reported, what differs between nodes, and waits of ranks. Pure."""

from collections.abc import Iterable, Mapping

from pylaunch.features.report.page.content import ReportInput
from pylaunch.features.report.page.timeline import seconds_text
from pylaunch.model.hostset import alike
from pylaunch.model.outcome import Outcome
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import EventKind
from pylaunch.model.secret import MASK, sounds_secret
from pylaunch.protocol.node_evidence import HostEvidence
from pylaunch.verdict.hangs.recorded_views import finding_on_views

MOST_LINES = 40
"""Lines of one kind that are shown for one host."""


def host_lines(plan: RunPlan, outcome: Outcome | None, begun: float) -> list[dict[str, object]]:
    """Return the hosts with evidence or missing facts, in the order of the plan; times count from `begun`."""
    by_name = {} if outcome is None else {each.host: each for each in outcome.hosts}
    rows: list[dict[str, object]] = []
    for host in plan.in_order(by_name):
        lines, missing = tuple(_lines(by_name[host], begun)), by_name[host].missing[:MOST_LINES]
        number, noun = (len(lines), "line") if lines else (len(missing), "unknown fact")
        summary = f"{number} {noun}{'' if number == 1 else 's'}"
        if number:
            rows.append({"host": host, "lines": lines, "missing": missing, "summary": summary})
    return rows


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


MOST_ROWS = 100
ABSENT = "not set"
PER_NODE = frozenset({"CUDA_VISIBLE_DEVICES", "PYLAUNCH_NODE_RANK", "GROUP_RANK"})
"""Variables that differ in healthy runs."""


def differing(by_host: Mapping[str, Mapping[str, str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return each name whose value is not the same on all hosts of `by_host` (host → name → value).

    It has folded hosts, and the value on them.
    """
    names = sorted({name for values in by_host.values() for name in values} - PER_NODE)
    found = []
    for name in names:
        values = {host: values.get(name, ABSENT) for host, values in by_host.items()}
        if len(set(values.values())) > 1:
            if sounds_secret(name):
                values = dict.fromkeys(values, MASK)
            found.append((name, alike({host: (value,) for host, value in values.items()})))
    return found[:MOST_ROWS]


def shared(by_host: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the names that have the same value on every host, with that value, without empty ones."""
    first = next(iter(by_host.values()), {})
    return {
        name: value
        for name, value in first.items()
        if value and all(values.get(name) == value for values in by_host.values())
    }


MOST_REPORTS = 20


def waiting_rows(content: ReportInput) -> list[dict[str, object]]:
    """Return what is known about ranks that did not advance, in the order of time."""
    record = content.record
    reports = [event for event in record.events if event.kind in (EventKind.HANG, EventKind.ADVANCING)]
    rows: list[dict[str, object]] = [
        {
            "when": f"{seconds_text(event.time - record.created_at)} after the start",
            "text": event.text,
            "lines": event.lines[:MOST_LINES],
            "hint": event.hint,
        }
        for event in reports[-MOST_REPORTS:]
    ]
    hosts = {rank.rank: node.host.name for node in record.plan.nodes for rank in node.ranks}
    found = finding_on_views(record.plan.run, hosts, record.outcome, content.views)
    is_known = record.outcome is not None and record.outcome.is_hang
    if found is not None and not is_known:
        when = f"before the ranks were stopped ({found.confidence.value} confidence)"
        lines = found.evidence[:MOST_LINES]
        rows.append(
            {"when": when, "text": found.text, "lines": lines, "hint": found.hint, "changed_by": found.changed_by}
        )
    return rows
