"""Find the inventory, let Ansible parse it, and apply `--limit`."""

import difflib
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pylaunch.errors import InventoryError
from pylaunch.inventory import cache, source_errors
from pylaunch.inventory.cluster import Complaint, group_in_use, read_hosts, with_loopback
from pylaunch.inventory.host_list import hosts_in_list, is_host_list
from pylaunch.inventory.limit import limited
from pylaunch.inventory.listing import Listing
from pylaunch.inventory.settings import read_settings
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import quoted
from pylaunch.store.paths import project_known_hosts
from pylaunch.transport import process

INVENTORY = "cluster.ini"
EXAMPLE = "start from the example: pylaunch help cluster.ini > cluster.ini"
LARGEST_FILE = 1 << 20
ANSWER_TIMEOUT_S = 120
"""Dynamic sources query cloud services."""

ANSIBLE_SETTINGS = {
    "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
    "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true",
    "ANSIBLE_INVENTORY_EXPORT": "false",
    "ANSIBLE_LOCALHOST_WARNING": "false",
    "ANSIBLE_NOCOLOR": "true",
    "ANSIBLE_FORCE_COLOR": "false",
}


def load_cluster(inventory: Path | None, *, limit: str | None = None) -> Cluster:
    """Return the cluster of `inventory` (a file, a directory or a host list), restricted to `limit`.

    Without `inventory`: the one that `pylaunch.toml` in the working directory names, else `cluster.ini` there, else
    this machine alone. `pylaunch.toml` also names the Python environment of the hosts. Raises InventoryError with all
    errors at once, UsageError for a `limit` that matches nothing.
    """
    source = source_of(inventory)
    if source is None:
        cluster = Cluster((this_machine(),))
        return cluster if limit is None else limited(cluster, limit, {})
    return _selected(listing_of(source), source, limit)


def _selected(listing: Listing, source: Path, limit: str | None) -> Cluster:
    cluster = _checked(listing, source)
    if limit is not None:
        cluster = limited(cluster, limit, {group: listing.hosts_of(group) for group in listing.groups})
    name = read_settings(Path.cwd()).env_name
    return with_loopback(cluster if name is None else cluster.with_env_name(name))


def source_of(inventory: Path | None) -> Path | None:
    """Return the inventory that `load_cluster` reads: a host list, or an absolute path; None for this machine alone."""
    source = inventory if inventory is not None else _found_here(Path.cwd())
    return source if source is None or is_host_list(source) else source.absolute()


def this_machine(devices: Path = Path("/dev")) -> Host:
    """Return the controller as the only host of a cluster. Its ranks use pylaunch's own Python."""
    accelerators = [entry for entry in devices.glob("nvidia*") if entry.name.removeprefix("nvidia").isdecimal()]
    return Host(
        name=platform.node(),
        address="127.0.0.1",
        connection=Connection.LOCAL,
        devices=tuple(range(len(accelerators))),
        interface="lo",
        python=sys.executable,
        agent_python=sys.executable,
    )


def _found_here(directory: Path) -> Path | None:
    named = read_settings(directory).inventory
    if named is not None:
        return named
    usual = directory / INVENTORY
    return usual if usual.exists() else None


def listing_of(source: Path) -> Listing:
    """Return the inventory at `source` as Ansible parses it. Raises InventoryError."""
    _readable(source)
    key = cache.key(source, Path.cwd(), os.environ)
    if key is not None and (answered := cache.lookup(key)) is not None:
        return answered
    if twice := source_errors.contradictions(_own_text(source)):
        raise InventoryError(
            f"a host has two values of a variable in the inventory {_shown(source)}",
            evidence=twice,
            hint="list each host once, and give each machine a name of its own",
        )
    program = Path(sys.executable).parent / "ansible-inventory"
    argv = (str(program), "-i", str(source), "--list")
    answer = process.run(argv, env=ANSIBLE_SETTINGS, timeout_s=ANSWER_TIMEOUT_S)
    if not answer.ok:
        by_hand = quoted(("ansible-inventory", "-i", _shown(source), "--list"))
        vault = "give Ansible the vault password: ANSIBLE_VAULT_PASSWORD_FILE, or vault_password_file in ansible.cfg"
        raise InventoryError(
            f"Ansible cannot read the inventory {_shown(source)}",
            evidence=source_errors.unparsed(answer.stderr, str(_directory(source))),
            hint=vault if "vault secrets" in answer.stderr else by_hand,
        )
    if skipped := source_errors.ignored(answer.stderr, str(_directory(source))):
        raise InventoryError(
            f"Ansible would ignore a part of the inventory {_shown(source)}",
            evidence=skipped,
            hint="remove or correct it; a group in YAML holds only hosts, vars and children",
        )
    if key is not None:
        cache.store(key, answer.stdout)
    return Listing.parse(answer.stdout)


def _own_text(source: Path) -> str:
    """Return the text of an inventory that is one file in INI; "" for others, and for programs."""
    is_file = not is_host_list(source) and source.is_file() and not os.access(source, os.X_OK)
    if not is_file or source.suffix in (".yml", ".yaml", ".json", ".toml"):
        return ""
    return source.read_text(encoding="utf-8", errors="replace")


def _readable(source: Path) -> None:
    if is_host_list(source):
        try:
            hosts_in_list(source)
        except ValueError as error:
            raise InventoryError(
                f"the host list {source}: {error}", hint="-i gpu01,gpu02, or -H 'gpu[01-02]'"
            ) from None
        return
    if not source.exists():
        near = difflib.get_close_matches(source.name, _names_in(source.parent), n=1)
        written = "pylaunch init 'gpu[01-02]' writes one; hosts without a file: -H gpu01,gpu02"
        hint = f"did you mean {source.with_name(near[0])}?" if near else written
        raise InventoryError(f"no such inventory: {source}", hint=hint)
    if not os.access(source, os.R_OK):
        raise InventoryError(f"the inventory cannot be read: {source}", hint=quoted(("ls", "-l", str(source))))
    if source.is_dir() and not _names_in(source):
        raise InventoryError(f"the inventory directory is empty: {source}", hint=EXAMPLE)


def _names_in(directory: Path) -> list[str]:
    return [entry.name for entry in directory.iterdir()] if directory.is_dir() else []


def _checked(listing: Listing, source: Path) -> Cluster:
    group = group_in_use(listing)
    if not listing.hosts_of(group):
        raise InventoryError(
            f"the inventory has no hosts: {_shown(source)}"
            if group == "all"
            else f"the group {group} has no hosts: {_shown(source)}",
            hint=f"put your hosts under [{'cluster' if group == 'all' else group}]; {EXAMPLE}",
        )
    reading = read_hosts(listing)
    if reading.complaints:
        evidence = explained(reading.complaints)
        count = f"{len(evidence)} errors" if len(evidence) > 1 else "1 error"
        raise InventoryError(
            f"{count} in the inventory {_shown(source)}",
            evidence=evidence,
            hint="every key is described in pylaunch help inventory",
        )
    return Cluster(reading.hosts, sources=(str(source),), known_hosts=str(project_known_hosts(source)))


def explained(complaints: Sequence[Complaint]) -> list[str]:
    """Return one line per error, with the hosts that share it: `gpu[01-04]: gpus: expected …`."""
    hosts: dict[str, list[str]] = {}
    for complaint in complaints:
        message = f"{complaint.key}: {complaint.message}" if complaint.key is not None else complaint.message
        hosts.setdefault(message, []).append(complaint.host)
    return [f"{fold(names)}: {message}" for message, names in hosts.items()]


def _texts(source: Path) -> dict[str, str]:
    """Return the text of the inventory's files: the source, and variables next to it."""
    directory = _directory(source)
    files = [*sorted(source.rglob("*"))] if source.is_dir() else [source]
    files += [file for name in ("group_vars", "host_vars") for file in sorted((directory / name).rglob("*"))]
    texts = {}
    for file in dict.fromkeys(files):
        if file.is_file() and file.stat().st_size <= LARGEST_FILE:
            texts[str(file.relative_to(directory))] = file.read_text(encoding="utf-8", errors="replace")
    return texts


def texts_of(source: Path) -> Mapping[str, str]:
    """Return the text of each file of an inventory; none for a list of hosts, or where they cannot be read."""
    try:
        return {} if is_host_list(source) or not source.exists() else _texts(source)
    except OSError:
        return {}


def _directory(source: Path) -> Path:
    return source if source.is_dir() else source.parent


def _shown(path: Path) -> str:
    """Return `path` relative to the working directory, if it is below it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
