"""`pylaunch attest`: record what every host is, sealed by its hash, or check hosts against such a record."""

from pathlib import Path

import click

from pylaunch.errors import ClusterNotReadyError, ExitCode
from pylaunch.features.drift import view
from pylaunch.features.drift.compare import (
    HostsFound,
    ask_all_facts,
    attest,
    changed_hosts,
    changes_since,
    inventory_of,
)
from pylaunch.inventory import load_cluster
from pylaunch.model.attestation import Attestation
from pylaunch.model.hostset import alike, fold
from pylaunch.store import attestations
from pylaunch.terminal import console, document, hints, options

EXAMPLES = """\b
Examples:
  pylaunch attest -i cluster.ini
  pylaunch attest -i cluster.ini -o before-upgrade.json
  pylaunch attest -i cluster.ini --verify before-upgrade.json
"""


@click.command(epilog=EXAMPLES)
@options.inventory
@options.limit
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the record here too.")
@click.option(
    "--verify", type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Keep no new record: say whether the hosts still are what this one says.",
)  # fmt: skip
@options.as_json
def command(inventory: Path | None, limit: str | None, output: Path | None, verify: Path | None, as_json: bool) -> int:
    """Record what every host is: system, hardware, driver, environment, packages, configuration.

    Each host's record has a digest, equal for equal hosts, and all of them together have one. Records are kept in
    .pylaunch/attestations next to the inventory; pylaunch drift compares with the latest of all hosts.
    """
    cluster = load_cluster(inventory, limit=limit)
    source = inventory_of(cluster, "attest")
    before = attestations.read(verify) if verify is not None else None
    found = ask_all_facts(cluster)
    if as_json and found.missing:
        reasons = {host: why.reason for host, why in found.missing.items()}
        document.show({"hosts": document.hosts(cluster.names, reasons, {})})
    if before is not None and verify is not None:
        _verify(found, before, verify, as_json=as_json)
        return ExitCode.DONE
    made, path = attest(found, source, of_all_hosts=limit is None)
    if output is not None:
        with options.writing("--output", output):
            attestations.write(output, made)
    if as_json:
        known = {
            name: {"digest": host.digest, "facts": host.facts, "own": host.own} for name, host in made.hosts.items()
        }
        document.show(
            {
                "made_at": made.made_at,
                "digest": made.digest,
                "kept_as": str(path),
                "hosts": document.hosts(cluster.names, {}, known),
            }
        )
    else:
        _show(made)
    console.say(f"kept as {path}")
    return ExitCode.DONE


def _show(made: Attestation) -> None:
    rows = alike({name: (host.digest,) for name, host in made.hosts.items()})
    console.table(("hosts", "digest"), rows)
    if len(rows) > 1:
        console.say(hints.completed("hosts with different digests are not the same; what differs: pylaunch drift"))


def _verify(found: HostsFound, before: Attestation, file: Path, *, as_json: bool) -> None:
    report = changes_since(found, before, file)
    changed = changed_hosts(report)
    if as_json:
        document.show({"attested_at": before.made_at, **view.as_data(found, report)})
    else:
        view.show(report)
    if changed:
        raise ClusterNotReadyError(
            f"{len(changed)} of {len(found.names)} hosts are not as attested at {before.made_at}: {fold(changed)}",
            hint="if that is meant: pylaunch attest",
        )
    console.say(f"{fold(found.names)}: as attested at {before.made_at}")
