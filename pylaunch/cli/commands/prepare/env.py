"""`pylaunch env`: lock the Python environment that provision installs on every host; remove one of several."""

import re
import shutil
from pathlib import Path
from typing import Any

import click

from pylaunch.base.dataclass import asdict
from pylaunch.errors import UsageError
from pylaunch.inventory import load_cluster
from pylaunch.inventory.settings import SETTINGS, environment_name, read_settings
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import pylaunch
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
from pylaunch.store.files import project_environment
from pylaunch.terminal import console, document, hints, options
from pylaunch.terminal.listing import counted
from pylaunch.terminal.option import CommandGroup


@click.group(cls=CommandGroup)
def command() -> None:
    """Lock the Python environment that provision installs, and lint environment variables.

    The Python environment belongs to a cluster and lives next to its inventory, in .pylaunch/environment. Projects with
    a name for theirs, in pylaunch.toml, have one each.
    """


def _directory(inventory: Path | None, directory: Path | None, name: str | None) -> Path:
    if directory is not None:
        if name is not None:
            raise UsageError("--environment cannot be combined with --name")
        return directory.absolute()
    sources = load_cluster(inventory).sources
    name = read_settings(Path.cwd()).env_name if name is None else environment_name(name, "--name")
    return project_environment(Path(sources[0]) if sources else Path.cwd() / "cluster.ini", name).absolute()


name_option = click.option(
    "--name", metavar="NAME", help="Name of the environment, instead of the one in pylaunch.toml."
)

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
@name_option
@environment_option
@click.option(
    "--python", default=CONTROLLER_PYTHON, show_default="this controller's", help="Python version of the hosts."
)
@click.option("--upgrade", is_flag=True, help="Look for newer versions, though the requirements did not change.")
def lock_command(
    requirements: tuple[Path, ...],
    inventory: Path | None,
    name: str | None,
    directory: Path | None,
    **how: Any,
) -> None:
    """Resolve REQUIREMENTS files to wheels, pin each by hash, and pack them for the hosts.

    A file may be one of pip's (hashes in it are obeyed), a uv.lock with its pyproject.toml, or a pylock.toml. pip
    resolves them, with the user's own configuration of indexes and local directories.
    """
    if re.fullmatch(r"3\.[0-9]+(\.[0-9]+)?", how["python"]) is None:
        raise UsageError(f"--python {how['python']}: expected the version of Python on the hosts", hint="--python 3.11")
    request = LockRequest(requirements, _directory(inventory, directory, name), **how)
    with console.working("resolving requirements") as show:
        locked = lock(request, LockProgress(console.say, show))
    console.say(summary(locked, request.directory))
    if name not in (None, read_settings(Path.cwd()).env_name):
        hints.say(f'{SETTINGS}, for start and provision to use it: [env] with name = "{name}"')


@command.command("show")
@options.inventory
@name_option
@environment_option
@options.as_json
def show_command(inventory: Path | None, name: str | None, directory: Path | None, as_json: bool) -> None:
    """List what the environment is made of."""
    directory = _directory(inventory, directory, name)
    manifest = read_manifest(directory)
    if manifest is None:
        named = ("--name", name) if name is not None else ()
        raise UsageError(f"no environment in {directory}", hint=pylaunch("env", "lock", *named, "requirements.txt"))
    if as_json:
        document.show({"environment": asdict(manifest), "directory": str(directory)})
    else:
        console.say(described(manifest))
        console.table(["package", "version"], list(manifest.packages.items()))


@command.command("remove")
@click.argument("name")
@options.inventory
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove_command(name: str, inventory: Path | None, yes: bool) -> None:
    """Remove the environment NAME from all hosts, and its lock; others stay.

    A host refuses while a run of pylaunch uses it, and while ranks run that pylaunch did not start.
    """
    from pylaunch.cli.views.provision import ProvisionView  # noqa: PLC0415 -- half a second that only this verb needs
    from pylaunch.provision.convergence import ProvisionOptions  # noqa: PLC0415
    from pylaunch.provision.provisioning import plan_reset, reset_hosts  # noqa: PLC0415

    cluster = load_cluster(inventory).with_env_name(environment_name(name, "NAME"))
    plan = plan_reset(cluster, ProvisionOptions(roles=("python_env",)))
    plan.raise_if_unreachable()
    hosts = fold(cluster.names)
    if not (yes or console.confirm(f"remove the environment {name} from {hosts}?")):
        console.say("nothing was changed")
        return
    view = ProvisionView()
    try:
        done = reset_hosts(plan, view.show, environments=True, dry_run=False)
    finally:
        view.end()
    shutil.rmtree(project_environment(Path(cluster.sources[0]), name).parent, ignore_errors=True)
    had = [host for host, tally in done.tallies.items() if tally.changed]
    if had:
        console.say(f"{fold(had)}: removed the environment {name}", style="green")
    else:
        console.say(f"{hosts}: no environment {name}")


def summary(locked: Locked, directory: Path) -> str:
    """Return the result of locking in one line."""
    if not locked.is_new:
        return f"nothing new: {described(locked.manifest)}"
    return f"locked: {described(locked.manifest)}, in {directory}"


def described(manifest: EnvironmentManifest) -> str:
    """Return an environment in one line."""
    return (
        f"environment {manifest.id}, {counted(len(manifest.packages), 'package')} for Python {manifest.python} "
        f"on {manifest.machine}, {shown_size(manifest.archive_bytes)}"
    )
