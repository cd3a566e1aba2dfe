"""Values of the keys of hosts, with the line of the inventory that sets each, or the default. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.inventory.cluster import resolved
from pylaunch.inventory.keys import ALIASES, KEYS
from pylaunch.inventory.locate import place_of
from pylaunch.model.cluster import Host
from pylaunch.model.hostset import fold
from pylaunch.model.text.redaction import Redaction, secrets_in

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
