"""Facts on which hosts differ, as a table and as JSON."""

from pylaunch.features.drift.compare import HostsFound
from pylaunch.features.drift.judgement import Report
from pylaunch.model.hostset import alike, fold
from pylaunch.terminal import console, document

SHOWN_ROWS = 12
"""Rows of one group about the same hosts, before the rest is only counted."""


def as_data(found: HostsFound, report: Report) -> dict[str, object]:
    """Return the hosts and their differences, for --json."""
    asked = found.survey.answers
    reasons = {host: why.reason for host, why in found.missing.items()}
    known = {host: {"unread": list(report.unread.get(host, ()))} for host in asked if host not in reasons}
    return {
        "hosts": document.hosts(asked, reasons, known),
        "oddities": [
            {
                "group": oddity.group,
                "fact": oddity.fact,
                "usual": oddity.usual,
                "usual_hosts": oddity.usual_count,
                "hosts": list(oddity.hosts),
                "value": oddity.value,
                "why": [{"cause": why.cause.value, "text": why.text or None} for why in oddity.why],
            }
            for oddity in report.oddities
        ],
    }


def show(report: Report) -> None:
    """Print the differences as a table, and facts that could not be read as notes."""
    rows: list[tuple[str, ...]] = []
    counted: dict[tuple[str, tuple[str, ...]], int] = {}
    for oddity in report.oddities:
        kind = (oddity.group, oddity.hosts)
        counted[kind] = counted.get(kind, 0) + 1
        if counted[kind] <= SHOWN_ROWS:
            usual = f"{oddity.usual} ({oddity.usual_count})" if oddity.usual_count else "no majority"
            usual = "all agree" if oddity.usual == oddity.value else usual
            why = ", ".join(map(str, oddity.why))
            rows.append((oddity.fact, usual, fold(oddity.hosts), oddity.value, why))
    if rows:
        console.table(("fact", "usual (hosts)", "odd hosts", "what they have", "explained by"), rows)
    for (group, hosts), count in counted.items():
        if count > SHOWN_ROWS:
            console.say(f"{fold(hosts)}: {count - SHOWN_ROWS} more of {group} (--json shows all)")
    for names, unread in alike(report.unread):
        console.say(f"note: {names}: not read: {unread}")
