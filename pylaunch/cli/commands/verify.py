"""`pylaunch verify`: look at every host from outside and say whether it is what provisioning promises."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pylaunch.cli import console
from pylaunch.cli.flags import options
from pylaunch.cli.views import document, promises
from pylaunch.cli.views.listing import duration
from pylaunch.cli.views.live_area import working
from pylaunch.errors import ExitCode, PylaunchError, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.probe.ask import Unreachable
from pylaunch.provision.errors import unreachable_error
from pylaunch.provision.specifications import SpecificationResult, results
from pylaunch.provision.workflow import site_request, survey
from pylaunch.store import content
from pylaunch.transport import process

_PYTEST = (sys.executable, "-P", "-m", "pytest", "--quiet")
_ANSWERS = {0: ExitCode.DONE, 1: ExitCode.JOB_FAILED, 2: ExitCode.INTERRUPTED}


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
    _must_have_tools()
    cluster = load_cluster(inventory, limit=limit)
    if not cluster.sources:
        raise UsageError("verify wants an inventory that names the hosts", hint="pylaunch verify -i cluster.ini")
    wanted = tuple(role.strip() for role in (asked["roles"] or "").split(",") if role.strip())
    unreachable = survey(site_request(cluster, wanted)).unreachable
    words = ["--inventory", cluster.sources[0]]
    words += ["--limit", limit] if limit is not None else []
    words += ["--roles", ",".join(wanted)] if wanted else []
    words += ["--deep"] if asked["deep"] else []
    begun = time.monotonic()
    ended, found = _specifications(words, junit, len(cluster.hosts))
    if as_json:
        _document(found, cluster, unreachable)
    else:
        # What cannot be reached is told once, below.
        reached = [each for each in found if each.host not in unreachable]
        for line in promises.lines(reached, cluster.sources[0]):
            console.data(line)
        hosts = len(cluster.hosts) - len(unreachable)
        style = "green" if ended is ExitCode.DONE else "red"
        console.say(promises.summary(reached, hosts, duration(time.monotonic() - begun)), style=style)
    if unreachable:
        raise unreachable_error(unreachable, len(cluster.hosts))
    return ended


def _must_have_tools() -> None:
    missing = [name for name in ("pytest", "testinfra") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"not installed: {', '.join(missing)}", hint="pip install 'pylaunch[verify]'")


def _specifications(words: Sequence[str], junit: Path | None, hosts: int) -> tuple[ExitCode, list[SpecificationResult]]:
    """Run the specifications and read their report. What pytest prints is evidence only where it could not run them."""
    with tempfile.TemporaryDirectory(prefix="pylaunch-verify-") as directory:
        report = junit.absolute() if junit is not None else Path(directory, "report.xml")
        with working(f"verifying {hosts} host{'s' * (hosts != 1)}"):
            done = process.run((*_PYTEST, str(content.specifications_directory()), *words, "--junit-xml", str(report)))
        if done.returncode not in _ANSWERS or not report.exists():
            raise PylaunchError(
                f"pytest could not run the specifications (exit code {done.returncode})",
                evidence=(done.stdout + done.stderr).splitlines()[-20:],
            )
        return _ANSWERS[done.returncode], list(results(report.read_text(encoding="utf-8")))


def _document(found: Sequence[SpecificationResult], cluster: Cluster, unreachable: Mapping[str, Unreachable]) -> None:
    reasons = {host: why.reason for host, why in unreachable.items()}
    per_host = {
        host: {"specifications": [_as_data(each) for each in found if each.host == host]}
        for host in cluster.names
        if host not in reasons
    }
    together = [_as_data(each) for each in found if each.host is None]
    document.show({"hosts": document.hosts(cluster.names, reasons, per_host), "specifications": together})


def _as_data(result: SpecificationResult) -> dict[str, object]:
    return {
        "specification": result.specification,
        "role": result.role,
        "outcome": result.outcome,
        "message": result.message or None,
    }
