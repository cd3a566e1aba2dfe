"""`pylaunch drift`: every fact on which the hosts disagree, and what explains it."""

from pathlib import Path

import click

from pylaunch.errors import ExitCode
from pylaunch.features.drift import view
from pylaunch.features.drift.compare import ask_all_facts, drift, inventory_of
from pylaunch.inventory import load_cluster
from pylaunch.model.hostset import fold
from pylaunch.store import attestations
from pylaunch.terminal import console, document, options

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
    before = attestations.latest(inventory_of(cluster, "drift"))
    found = ask_all_facts(cluster)
    report = drift(found, before)
    if as_json:
        attested_at = before.made_at if before is not None else None
        document.show({"attested_at": attested_at, **view.as_data(found, report)})
    else:
        view.show(report)
    if found.names and not report.oddities:
        console.say(f"{fold(found.names)}: nothing differs")
    found.raise_if_missing()
    return ExitCode.DIFFERENT if exit_code and report.oddities else ExitCode.DONE
