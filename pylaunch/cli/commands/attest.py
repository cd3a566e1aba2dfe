"""`pylaunch attest`: record what every host is, sealed by its hash, or check hosts against such a record."""

from __future__ import annotations

from pathlib import Path

import click

from pylaunch.cli import console
from pylaunch.cli.flags import options
from pylaunch.cli.views import document, hints, looking
from pylaunch.errors import ClusterNotReadyError, ExitCode
from pylaunch.inventory import load_cluster
from pylaunch.model.attestation import Attestation
from pylaunch.model.hostset import alike, fold
from pylaunch.provision.attest import attestation, records
from pylaunch.provision.minority import Cause, Report, compare
from pylaunch.provision.workflow import ProvisionSurvey
from pylaunch.store import attestations

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
    source = looking.inventory_of(cluster, "attest")
    before = attestations.read(verify) if verify is not None else None
    found = looking.look(cluster, source)
    if as_json and (missing := looking.unasked(found)):
        reasons = {host: why.reason for host, why in missing.items()}
        document.show({"hosts": document.hosts(cluster.names, reasons, {})})
    looking.raise_if_unasked(found)
    if before is not None:
        _verify(found, before, verify, as_json=as_json)
        return ExitCode.DONE
    made = attestation(found)
    path = attestations.keep(source, made, of_all_hosts=limit is None)
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


def _verify(found: ProvisionSurvey, before: Attestation, file: Path | None, *, as_json: bool) -> None:
    hosts = records(found)
    if unknown := [host for host in hosts if host not in before.hosts]:
        raise ClusterNotReadyError(
            f"{file} says nothing about {fold(unknown)}", hint="attest all hosts again: pylaunch attest"
        )
    report = _only_changed(compare(hosts, {}, before.hosts))
    changed = {host for oddity in report.oddities for host in oddity.hosts}
    if as_json:
        document.show({"attested_at": before.made_at, **looking.as_data(found, report)})
    else:
        looking.show(report)
    if changed:
        raise ClusterNotReadyError(
            f"{len(changed)} of {len(hosts)} hosts are not as attested at {before.made_at}: {fold(changed)}",
            hint="if that is meant: pylaunch attest",
        )
    console.say(f"{fold(hosts)}: as attested at {before.made_at}")


def _only_changed(report: Report) -> Report:
    changed = (each for each in report.oddities if any(why.cause is Cause.TIME for why in each.why))
    return Report(tuple(changed), report.unread)
