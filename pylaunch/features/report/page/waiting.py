"""Hangs for a report: those that the run was watched for, and the judgement of its last views. Pure."""

from __future__ import annotations

from pylaunch.base.dataclass import dataclass
from pylaunch.features.report.page.content import ReportInput
from pylaunch.features.report.page.timeline import seconds_text
from pylaunch.model.run import EventKind
from pylaunch.verdict.hangs.recorded_views import finding_on_views

MOST_REPORTS = 20
MOST_LINES = 40


@dataclass(frozen=True)
class WaitRow:
    """Explanation of ranks that did not advance, at one moment."""

    when: str
    text: str
    lines: tuple[str, ...]
    """Evidence."""

    hint: str
    changed_by: str = ""
    """Observation that would change it."""

    confidence: str = ""
    """Empty where the text has it."""


def waiting_rows(content: ReportInput) -> tuple[WaitRow, ...]:
    """Return what is known about ranks that did not advance, in the order of time."""
    record = content.record
    reports = [event for event in record.events if event.kind in (EventKind.HANG, EventKind.ADVANCING)]
    rows = [
        WaitRow(f"{seconds_text(event.time - record.created_at)} after the start", event.text,
                event.lines[:MOST_LINES], event.hint)
        for event in reports[-MOST_REPORTS:]
    ]  # fmt: skip
    hosts = {rank.rank: node.host.name for node in record.plan.nodes for rank in node.ranks}
    found = finding_on_views(record.plan.run, hosts, record.outcome, content.views)
    is_known = record.outcome is not None and record.outcome.is_hang
    if found is not None and not is_known:
        rows.append(WaitRow("before the ranks were stopped", found.text, found.evidence[:MOST_LINES], found.hint,
                            found.changed_by, found.confidence.value))  # fmt: skip
    return tuple(rows)
