"""`pylaunch env`: lock the Python environment that provision installs on every host."""

import re
from pathlib import Path
from typing import Any

import click

from pylaunch.base.dataclass import asdict
from pylaunch.errors import UsageError
from pylaunch.features.provision.environments.environment import (
    EnvironmentManifest,
    Locked,
    LockRequest,
    lock,
    read_manifest,
)
from pylaunch.features.provision.environments.resolution import CONTROLLER_PYTHON
from pylaunch.inventory import load_cluster
from pylaunch.inventory.load import read_settings
from pylaunch.model.text.quantity import counted
from pylaunch.store.files import project_environment
from pylaunch.terminal import console, document, options


@click.group()
def command() -> None:
    """Lock the Python environment that provision installs, and show it.

    The Python environment belongs to a cluster and lives next to its inventory, in .pylaunch/environment. Projects with
    a name for theirs, in pylaunch.toml, have one each.
    """


def _directory(inventory: Path | None) -> Path:
    sources = load_cluster(inventory).sources
    source = Path(sources[0]) if sources else Path.cwd() / "cluster.ini"
    return project_environment(source, read_settings(Path.cwd()).env_name).absolute()


@command.command("lock")
@click.argument("requirements", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.inventory
@click.option(
    "--python", default=CONTROLLER_PYTHON, show_default="this controller's", help="Python version of the hosts."
)
@click.option("--upgrade", is_flag=True, help="Look for newer versions, though the requirements did not change.")
def lock_command(requirements: tuple[Path, ...], inventory: Path | None, **how: Any) -> None:
    """Resolve REQUIREMENTS files to wheels, and pin each by hash for the hosts.

    A file may be one of pip's (hashes in it are obeyed), a uv.lock with its pyproject.toml, or a pylock.toml. pip
    resolves them, with the user's own configuration of indexes and local directories.
    """
    if re.fullmatch(r"3\.[0-9]+(\.[0-9]+)?", how["python"]) is None:
        raise UsageError(f"--python {how['python']}: expected the version of Python on the hosts", hint="--python 3.11")
    request = LockRequest(requirements, _directory(inventory), **how)
    with console.working("resolving requirements"):
        locked = lock(request)
    console.say(summary(locked, request.directory))


@command.command("show")
@options.inventory
@options.as_json
def show_command(inventory: Path | None, as_json: bool) -> None:
    """List what the environment is made of."""
    directory = _directory(inventory)
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
        f"environment {manifest.id}, {counted(len(manifest.packages), 'package')} for Python {manifest.python} "
        f"on {manifest.machine}"
    )
