"""What `drift` and `attest` begin with: every host asked for all that it is."""

from __future__ import annotations

from pathlib import Path

from pylaunch.cli import console
from pylaunch.cli.views import document
from pylaunch.errors import UsageError
from pylaunch.model.argv import pylaunch
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import alike, fold
from pylaunch.probe.ask import Unreachable
from pylaunch.provision.desired import Content
from pylaunch.provision.errors import unreachable_error
from pylaunch.provision.minority import Report
from pylaunch.provision.workflow import ProvisionRequest, ProvisionSurvey, survey
from pylaunch.store import content
from pylaunch.store.paths import project_directory

SHOWN_ROWS = 12
"""Rows of one group about the same hosts, before the rest is only counted."""


def inventory_of(cluster: Cluster, verb: str) -> Path:
    """The inventory file. Raises UsageError for this machine alone, which has nobody to be compared with."""
    if not cluster.sources:
        raise UsageError(f"{verb} compares the hosts of an inventory", hint=f"pylaunch {verb} -i cluster.ini")
    return Path(cluster.sources[0])


def look(cluster: Cluster, inventory: Path) -> ProvisionSurvey:
    """Ask every host what it is, also what no role asks about."""
    extra_vars = {"pylaunch_project_directory": str(project_directory(inventory))}
    request = ProvisionRequest(
        cluster, Content(content.playbook("site"), content.roles_directory()), extra_vars=extra_vars
    )
    return survey(request, portraits=True)


def unasked(found: ProvisionSurvey) -> dict[str, Unreachable]:
    """Hosts that could not be asked, with why."""
    without = {
        host: Unreachable("no Python there", pylaunch("provision", "--limit", fold(found.without_python)))
        for host in found.without_python
    }
    return found.unreachable | without


def as_data(found: ProvisionSurvey, report: Report) -> dict[str, object]:
    """What was asked and what differs, for --json."""
    reasons = {host: why.reason for host, why in unasked(found).items()}
    known = {host: {"unread": list(report.unread.get(host, ()))} for host in found.answers if host not in reasons}
    return {
        "hosts": document.hosts(found.answers, reasons, known),
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


def raise_if_unasked(found: ProvisionSurvey) -> None:
    """Raises the error for hosts that could not be asked, if there are any."""
    if missing := unasked(found):
        raise unreachable_error(missing, len(found.answers))


def show(report: Report) -> None:
    """The minority report as a table; what could not be read as notes."""
    rows: list[tuple[str, ...]] = []
    counted: dict[tuple[str, tuple[str, ...]], int] = {}
    for oddity in report.oddities:
        kind = (oddity.group, oddity.hosts)
        counted[kind] = counted.get(kind, 0) + 1
        if counted[kind] <= SHOWN_ROWS:
            usual = f"{oddity.usual} ({oddity.usual_count})" if oddity.usual_count else "no majority"
            why = ", ".join(map(str, oddity.why))
            rows.append((oddity.fact, usual, fold(oddity.hosts), oddity.value, why))
    if rows:
        console.table(("fact", "usual (hosts)", "odd hosts", "what they have", "explained by"), rows)
    for (group, hosts), count in counted.items():
        if count > SHOWN_ROWS:
            console.say(f"{fold(hosts)}: {count - SHOWN_ROWS} more of {group} (--json shows all)")
    for names, unread in alike(report.unread):
        console.say(f"note: {names}: not read: {unread}")
