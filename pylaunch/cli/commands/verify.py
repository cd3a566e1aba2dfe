"""`pylaunch verify`: look at every host from outside and say whether it is what provisioning promises."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from pylaunch.cli import options
from pylaunch.errors import ExitCode, PylaunchError, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.provision.verdict import unreachable_error
from pylaunch.provision.workflow import site_request, survey
from pylaunch.store import content
from pylaunch.transport import process


@click.command()
@options.inventory
@options.limit
@click.option("--roles", metavar="ROLES", help="Only what these roles promise, comma-separated.")
@click.option("--deep", is_flag=True, help="Look at every file of the Python environment, not only at its records.")
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write a JUnit XML report here.")
def command(inventory: Path | None, limit: str | None, roles: str | None, deep: bool, junit: Path | None) -> int:
    """Verify every host against what the roles promise.

    The specifications are pytest-testinfra tests that travel with pylaunch; nothing is changed on any host. Exit code
    1 says that one of them does not hold, 3 that a host cannot be reached.
    """
    _must_have_tools()
    cluster = load_cluster(inventory, limit=limit)
    if not cluster.sources:
        raise UsageError("verify wants an inventory that names the hosts", hint="pylaunch verify -i cluster.ini")
    wanted = tuple(role.strip() for role in (roles or "").split(",") if role.strip())
    unreachable = survey(site_request(cluster, wanted)).unreachable
    words = ["--inventory", cluster.sources[0]]
    words += ["--limit", limit] if limit is not None else []
    words += ["--roles", ",".join(wanted)] if wanted else []
    words += ["--deep"] if deep else []
    words += ["--junit-xml", str(junit.absolute())] if junit is not None else []
    ended = _specifications(words)
    if unreachable:
        raise unreachable_error(unreachable, len(cluster.hosts))
    return ended


def _must_have_tools() -> None:
    missing = [name for name in ("pytest", "testinfra") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"not installed: {', '.join(missing)}", hint="pip install 'pylaunch[verify]'")


def _specifications(words: Sequence[str]) -> ExitCode:
    argv = (sys.executable, "-P", "-m", "pytest", "--quiet", str(content.specifications_directory()), *words)
    returncode = process.run_on_terminal(argv)
    answers = {0: ExitCode.DONE, 1: ExitCode.JOB_FAILED, 2: ExitCode.INTERRUPTED}
    if returncode not in answers:
        raise PylaunchError(f"pytest could not run the specifications (exit code {returncode}); it says why above")
    return answers[returncode]
