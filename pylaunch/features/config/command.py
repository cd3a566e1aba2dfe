"""`pylaunch config show`: settings in use, each with the flag, file, variable or default that it comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from pylaunch.errors import ExitCode
from pylaunch.features.config.host_values import DEFAULT, SettingInUse, hosts_cell, shortened, values_of_hosts
from pylaunch.inventory.load import INVENTORY, load_cluster, load_with_variables, source_of, texts_of
from pylaunch.inventory.settings import SETTINGS, Settings, read_settings
from pylaunch.store.paths import cache_directory, state_directory
from pylaunch.terminal import console, document, options
from pylaunch.terminal.group import CommandGroup
from pylaunch.terminal.invocation import current

HEADINGS = ("SETTING", "VALUE", "FROM", "HOSTS")


@click.group(cls=CommandGroup)
def command() -> None:
    """Show the settings in use, and where each value comes from."""


@command.command()
@options.inventory
@options.limit
@options.as_json
def show(inventory: Path | None, limit: str | None, as_json: bool) -> int:
    """Show each setting in use with its source: a flag, pylaunch.toml, a variable, a line of the inventory, or default.

    The environment of the ranks is shown by pylaunch start --dry-run, the variables of roles by pylaunch help.
    """
    here = list(_here(inventory, read_settings(Path.cwd()), os.environ))
    if (source := source_of(inventory)) is None:
        of_hosts = values_of_hosts(load_cluster(None, limit=limit).hosts, {}, {})
    else:
        cluster, variables = load_with_variables(source, limit=limit)
        of_hosts = values_of_hosts(cluster.hosts, variables, texts_of(source))
    if as_json:
        rows = [(each.name, each.value, each.source, list(each.hosts)) for each in (*here, *of_hosts)]
        document.show({"settings": [dict(zip(("name", "value", "source", "hosts"), row, strict=True)) for row in rows]})
    else:
        rows_shown = (*here, *shortened(of_hosts))
        console.table(HEADINGS, [(each.name, each.value, each.source, hosts_cell(each)) for each in rows_shown])
    return ExitCode.DONE


def _here(inventory: Path | None, settings: Settings, environment: Mapping[str, str]) -> Iterator[SettingInUse]:
    """Yield the settings of this machine and its working directory."""
    source = source_of(inventory)
    if inventory is not None:
        origin = current().inventory[0]
    elif settings.inventory is not None:
        origin = SETTINGS
    else:
        origin = f"{INVENTORY} in this directory" if source is not None else DEFAULT
    yield SettingInUse("inventory", "this machine alone" if source is None else str(source), origin)
    if job := environment.get("SLURM_JOB_ID"):
        yield SettingInUse("nodes", f"those of Slurm job {job}, unless --scheduler none", "SLURM_JOB_ID")
    yield SettingInUse("scheduler", settings.scheduler or "auto", SETTINGS if settings.scheduler else DEFAULT)
    for name, value in settings.slurm.items():
        yield SettingInUse(f"slurm.{name}", str(value), SETTINGS)
    if settings.env_name is not None:
        yield SettingInUse("env.name", settings.env_name, SETTINGS)
    if settings.container_image is not None:
        yield SettingInUse("container.image", settings.container_image, SETTINGS)
    for mount in settings.container_mounts:
        yield SettingInUse("container.mounts", mount, SETTINGS)
    for name, directory, variable in (
        ("records of runs", state_directory(), "XDG_STATE_HOME"),
        ("cache", cache_directory(), "XDG_CACHE_HOME"),
    ):
        yield SettingInUse(name, str(directory), variable if environment.get(variable) else DEFAULT)
