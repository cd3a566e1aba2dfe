"""`pylaunch verify`: look at every host from outside and say whether it is what provisioning promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pylaunch.cli.views import promises
from pylaunch.errors import ExitCode
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.provision.specifications import SpecificationResult
from pylaunch.provision.verify import ALL_PASSED, INTERRUPTED, SOME_FAILED, VerifyReport, verify
from pylaunch.terminal import console, document, options
from pylaunch.terminal.listing import duration
from pylaunch.terminal.live_area import working
from pylaunch.terminal.views.live import counted

_EXIT_CODES = {
    ALL_PASSED: ExitCode.DONE,
    SOME_FAILED: ExitCode.JOB_FAILED,
    INTERRUPTED: ExitCode.INTERRUPTED,
}


@click.command()
@options.inventory
@options.limit
@click.option("--roles", metavar="ROLES", help="Only what these roles promise, comma-separated.")
@click.option("--deep", is_flag=True, help="Look at every file of the Python environment, not only at its records.")
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write a JUnit XML report here.")
@options.as_json
def command(inventory: Path | None, limit: str | None, *, junit: Path | None, as_json: bool, **asked: Any) -> int:
    """Verify every host against what the roles promise.

    The specifications are pytest-testinfra tests that travel with pylaunch; nothing is changed on any host. Exit code
    1 says that one of them does not hold, 3 that a host cannot be reached.
    """
    cluster = load_cluster(inventory, limit=limit)
    with working(f"verifying {counted(len(cluster.hosts), 'host')}"):
        roles = options.words(asked["roles"])
        report = verify(cluster, limit=limit, roles=roles, deep=asked["deep"], junit=junit)
    exit_code = _EXIT_CODES[report.exit_code]
    if as_json:
        _document(report, cluster)
    else:
        # Hosts out of reach are reported once, below.
        for line in promises.lines(report.of_reached_hosts, cluster.sources[0]):
            console.data(line)
        hosts = len(cluster.hosts) - len(report.unreachable)
        style = "green" if exit_code is ExitCode.DONE else "red"
        took = duration(report.seconds)
        console.say(promises.summary(report.of_reached_hosts, hosts, took), style=style)
    report.raise_if_unreachable()
    return exit_code


def _document(report: VerifyReport, cluster: Cluster) -> None:
    reasons = {host: why.reason for host, why in report.unreachable.items()}
    per_host = {
        host: {"specifications": [_as_data(each) for each in report.results if each.host == host]}
        for host in cluster.names
        if host not in reasons
    }
    together = [_as_data(each) for each in report.results if each.host is None]
    document.show({"hosts": document.hosts(cluster.names, reasons, per_host), "specifications": together})


def _as_data(result: SpecificationResult) -> dict[str, object]:
    return {
        "specification": result.specification,
        "role": result.role,
        "outcome": result.outcome,
        "message": result.message or None,
    }
