"""`pylaunch drift`: every fact on which the hosts disagree, and what explains it."""

from __future__ import annotations

from pathlib import Path

import click

from pylaunch.cli import console
from pylaunch.cli.flags import options
from pylaunch.cli.views import document, looking
from pylaunch.errors import ExitCode
from pylaunch.inventory import load_cluster
from pylaunch.model.hostset import fold
from pylaunch.provision.attest import expectations, records
from pylaunch.provision.minority import compare
from pylaunch.store import attestations

EXAMPLES = """\b
Examples:
  pylaunch drift -i cluster.ini
  pylaunch drift -i cluster.ini --limit gpu[01-08] --json
"""


@click.command(epilog=EXAMPLES)
@options.inventory
@options.limit
@options.exit_code
@options.as_json
def command(inventory: Path | None, limit: str | None, exit_code: bool, as_json: bool) -> int:
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
        attested_at = before.made_at if before is not None else None
        document.show({"attested_at": attested_at, **looking.as_data(found, report)})
    else:
        looking.show(report)
    if hosts and not report.oddities:
        console.say(f"{fold(hosts)}: nothing differs")
    looking.raise_if_unasked(found)
    return ExitCode.DIFFERENT if exit_code and report.oddities else ExitCode.DONE
