"""`pylaunch config show`: settings in use, each with the flag, file, variable or default that it comes from."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ExitCode
from pylaunch.inventory.cluster import resolved
from pylaunch.inventory.keys import ALIASES, KEYS
from pylaunch.inventory.load import INVENTORY, load_cluster, load_with_variables, source_of, texts_of
from pylaunch.inventory.locate import place_of
from pylaunch.inventory.settings import SETTINGS, Settings, read_settings
from pylaunch.model.cluster import Host
from pylaunch.model.hostset import fold
from pylaunch.model.text.redaction import Redaction, secrets_in
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


def _here(inventory: Path | None, settings: Settings, environment: Mapping[str, str]) -> "Iterator[SettingInUse]":
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


DEFAULT = "default"
INTERPRETER = "ansible_python_interpreter"
"""Interpreter of Ansible, which runs the agent, too, where no other one is named."""

MOST_ROWS = 4
"""A key with more values than this is shown in one row."""


@dataclass(frozen=True)
class SettingInUse:
    """A value that pylaunch uses, for all of `hosts`; a setting of this machine has none."""

    name: str
    value: str
    source: str
    hosts: tuple[str, ...] = ()


def values_of_hosts(
    hosts: Sequence[Host], variables: Mapping[str, Mapping[str, object]], files: Mapping[str, str]
) -> list[SettingInUse]:
    """Return one setting for each key, value and source; `files` are the texts of the inventory."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for host in hosts:
        for key, value, source in _of_host(host, variables.get(host.name, {}), files):
            found.setdefault((key, value, source), []).append(host.name)
    settings = [SettingInUse(*setting, tuple(names)) for setting, names in found.items()]
    return sorted(settings, key=lambda each: KEYS.index(each.name))


def shortened(settings: Sequence[SettingInUse]) -> list[SettingInUse]:
    """Return the settings with one row for a key that has more than MOST_ROWS values."""
    rows: dict[str, list[SettingInUse]] = {}
    for each in settings:
        rows.setdefault(each.name, []).append(each)
    return [each for of_key in rows.values() for each in (of_key if len(of_key) <= MOST_ROWS else [_together(of_key)])]


def _together(rows: Sequence[SettingInUse]) -> SettingInUse:
    values, files = {each.value for each in rows}, {each.source.partition(":")[0] for each in rows}
    hosts = tuple(host for each in rows for host in each.hosts)
    return SettingInUse(rows[0].name, f"{len(values)} values (--json lists them)", ", ".join(sorted(files)), hosts)


def hosts_cell(setting: SettingInUse) -> str:
    """Return the hosts of a setting in one cell."""
    return fold(setting.hosts) if setting.hosts else ""


def _of_host(host: Host, variables: Mapping[str, object], files: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    defaults = {
        "ansible_host": host.address,
        "ansible_connection": host.connection.value,
        "pylaunch_python": host.rank_python,
        "pylaunch_agent_python": host.agent_python,
        "pylaunch_node_root": host.node_root,
        "pylaunch_env_root": host.env_root,
        "pylaunch_attestation": host.attestation.value,
    }
    for key in KEYS:
        names = [key, *(alias for alias, meant in ALIASES.items() if meant == key)]
        spelled = next((name for name in names if name in variables), None)
        if spelled is not None:
            yield (
                key,
                _shown(spelled, host.name, variables),
                place_of(files, host.name, spelled, variables[spelled]) or "inventory",
            )
        elif key == "pylaunch_agent_python" and INTERPRETER in variables:
            source = place_of(files, host.name, INTERPRETER, variables[INTERPRETER]) or "inventory"
            yield key, host.agent_python, source
        elif key in defaults:
            yield key, defaults[key], DEFAULT


def _shown(key: str, host: str, variables: Mapping[str, object]) -> str:
    value = variables[key]
    try:
        value = resolved(value, host, variables)
    except ValueError:
        return str(value)  # A template that only a play can render.
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return Redaction(secrets_in(text)).hide(text)
