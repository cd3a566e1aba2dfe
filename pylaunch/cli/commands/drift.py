"""`pylaunch drift`: every fact on which the hosts disagree, and what explains it."""

from __future__ import annotations

from pathlib import Path

import click

from pylaunch.cli import console, looking, options
from pylaunch.errors import ExitCode
from pylaunch.inventory import load_cluster
from pylaunch.model.attestation import Attestation
from pylaunch.model.hostset import fold
from pylaunch.provision.attest import expectations, records
from pylaunch.provision.minority import Report, compare
from pylaunch.store import attestations

EXAMPLES = """\b
Examples:
  pylaunch drift -i cluster.ini
  pylaunch drift -i cluster.ini --limit gpu[01-08] --json
"""


@click.command(epilog=EXAMPLES)
@options.inventory
@options.limit
@options.as_json
def command(inventory: Path | None, limit: str | None, as_json: bool) -> int:
    """Show every fact on which the hosts disagree: what most have, who is odd, and what explains it.

    configuration: a role wants it otherwise, and pylaunch provision puts it right. time: it was otherwise when
    pylaunch attest last looked. cluster: neither; only the comparison shows it.
    """
    cluster = load_cluster(inventory, limit=limit)
    source = looking.inventory_of(cluster, "drift")
    before = attestations.latest(source)
    found = looking.look(cluster, source)
    hosts = records(found)
    report = compare(hosts, expectations(found), before.hosts if before is not None else {})
    if as_json:
        console.json_data(_data(report, before))
    else:
        looking.show(report)
    if hosts and not report.oddities:
        console.say(f"{fold(hosts)}: nothing differs")
    looking.raise_if_unasked(found)
    return ExitCode.DONE


def _data(report: Report, before: Attestation | None) -> dict[str, object]:
    return {
        "attested_at": before.made_at if before is not None else None,
        "oddities": [
            {
                "group": oddity.group,
                "fact": oddity.fact,
                "usual": oddity.usual,
                "usual_hosts": oddity.usual_count,
                "hosts": oddity.hosts,
                "value": oddity.value,
                "why": {why.cause.value: why.text for why in oddity.why},
            }
            for oddity in report.oddities
        ],
        "unread": report.unread,
    }
