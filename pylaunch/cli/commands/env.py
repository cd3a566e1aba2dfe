"""`pylaunch env`: lock the Python environment that provision installs on every host."""

from __future__ import annotations

import re
from pathlib import Path

import click

from pylaunch.base.dataclass import asdict
from pylaunch.errors import UsageError
from pylaunch.inventory import load_cluster
from pylaunch.model.text.size import shown_size
from pylaunch.provision.environments.environment import (
    CONTROLLER_PYTHON,
    EnvironmentManifest,
    Locked,
    LockProgress,
    LockRequest,
    lock,
    read_manifest,
)
from pylaunch.store.paths import project_environment
from pylaunch.terminal import console, document, options
from pylaunch.terminal.group import CommandGroup
from pylaunch.terminal.live_area import working


@click.group(cls=CommandGroup)
def command() -> None:
    """Lock the Python environment that provision installs, and lint environment variables.

    The Python environment belongs to a cluster and lives next to its inventory, in .pylaunch/environment.
    """


def _directory(inventory: Path | None) -> Path:
    sources = load_cluster(inventory).sources
    return project_environment(Path(sources[0]) if sources else Path.cwd() / "cluster.ini")


environment_option = click.option(
    "-o",
    "--environment",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory to keep it in, instead of .pylaunch/environment next to the inventory.",
)


@command.command("lock")
@click.argument("requirements", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.inventory
@environment_option
@click.option(
    "--python", default=CONTROLLER_PYTHON, show_default="this controller's", help="Python version of the hosts."
)
@click.option("--upgrade", is_flag=True, help="Look for newer versions, though the requirements did not change.")
def lock_command(
    requirements: tuple[Path, ...],
    inventory: Path | None,
    directory: Path | None,
    python: str,
    upgrade: bool,
) -> None:
    """Resolve REQUIREMENTS files to wheels, pin each by hash, and pack them for the hosts.

    A file may be one of pip's (hashes in it are obeyed), a uv.lock with its pyproject.toml, or a pylock.toml. pip
    resolves them, with the user's own configuration of indexes and local directories.
    """
    if re.fullmatch(r"3\.[0-9]+(\.[0-9]+)?", python) is None:
        raise UsageError(f"--python {python}: expected the version of Python on the hosts", hint="--python 3.11")
    directory = directory or _directory(inventory)
    request = LockRequest(requirements, directory.absolute(), python, upgrade)
    with working("resolving requirements") as show:
        locked = lock(request, LockProgress(console.say, show))
    console.say(summary(locked, request.directory))


@command.command("show")
@options.inventory
@environment_option
@options.as_json
def show_command(inventory: Path | None, directory: Path | None, as_json: bool) -> None:
    """List what the environment is made of."""
    directory = directory or _directory(inventory)
    manifest = read_manifest(directory)
    if manifest is None:
        raise UsageError(f"no environment in {directory}", hint="pylaunch env lock requirements.txt")
    if as_json:
        document.show({"environment": asdict(manifest), "directory": str(directory)})
    else:
        console.say(described(manifest))
        console.table(["package", "version"], list(manifest.packages.items()))


def summary(locked: Locked, directory: Path) -> str:
    """Return the result of locking in one line."""
    if not locked.is_new:
        return f"nothing new: {described(locked.manifest)}"
    return f"locked: {described(locked.manifest)}, in {directory}"


def described(manifest: EnvironmentManifest) -> str:
    """Return an environment in one line."""
    return (
        f"environment {manifest.id}, {len(manifest.packages)} packages for Python {manifest.python} "
        f"on {manifest.machine}, {shown_size(manifest.archive_bytes)}"
    )
