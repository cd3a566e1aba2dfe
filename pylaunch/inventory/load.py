"""Find the inventory, which `pylaunch.toml` may name, let Ansible parse it, and apply `--limit`.

Hosts may be named on the command line instead of in a file: Ansible's host list, `gpu01,gpu02,`. It has no directory of
its own, so the project directory `.pylaunch` is in the working directory.

Ansible tries its parsers one after the other and reports the failure of each. The relevant one is the first that is not
just "this is not my format".

The answers of `ansible-inventory` are kept while everything that they depend on is unchanged: it takes longer than
everything else before the first connection. An answer is kept only if all its inputs are known: a file in INI format,
variables beside it or in the working directory, no settings of Ansible and no plugins. An inventory with a secret is
never kept, so that the secret is not written to disk.
"""

import contextlib
import difflib
import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import msgspec

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import InventoryError, UsageError
from pylaunch.inventory.cluster import Complaint, Listing, group_in_use, limited, read_hosts, with_loopback
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.hostset import expand, fold
from pylaunch.model.plan import RunPlan
from pylaunch.model.secret import sounds_secret
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.redaction import secrets_in
from pylaunch.model.text.typed_json import converted
from pylaunch.store.files import cache_directory, project_known_hosts, write_whole
from pylaunch.transport import process

KEPT = 50
"""Number of answers; the oldest is removed first."""

LARGEST = 4 << 20
"""Bytes of input files that are hashed; an inventory with more is not cached."""

FORMAT = "1"
_SECRET = re.compile(r"pass|secret|token|vault", re.IGNORECASE)
_VARIABLES = ("group_vars", "host_vars")
_PLUGINS = ("vars_plugins", "inventory_plugins")


def cache_key(source: Path, directory: Path, environment: Mapping[str, str]) -> str | None:
    """Return the cache key of `source` in the working `directory`: a hash of all inputs, None if some are unknown."""
    if not _is_plain(source, directory, environment):
        return None
    digest = hashlib.sha256(f"{FORMAT} {source} {directory}\n".encode())
    room = LARGEST
    for file in (_ansible(), source, *_variable_files((source.parent, directory))):
        content = _content(file) if file is not None else None
        if content is None:
            return None
        room -= len(content)
        if room < 0:
            return None
        digest.update(f"{file} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def kept_answer(key: str) -> Listing | None:
    """Return the cached answer; None if there is none or it is damaged."""
    with contextlib.suppress(OSError, ValueError):
        return Listing.parse(_path(key).read_text(encoding="utf-8"))
    return None


def keep_answer(key: str, answer: str) -> None:
    """Cache an answer unless it seems to hold a secret. Errors of the disk are ignored."""
    if _has_secret(json.loads(answer)):
        return
    path = _path(key)
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, answer.encode())
        for old in sorted(path.parent.iterdir(), key=lambda kept: kept.stat().st_mtime, reverse=True)[KEPT:]:
            old.unlink(missing_ok=True)


def _is_plain(source: Path, directory: Path, environment: Mapping[str, str]) -> bool:
    """Return whether Ansible reads `source` with its INI parser and no configuration can change that."""
    home = Path.home()
    settings = [directory / "ansible.cfg", home / ".ansible.cfg", Path("/etc/ansible/ansible.cfg")]
    plugins = [place / name for place in (source.parent, directory) for name in _PLUGINS]
    shared = (home / ".ansible" / "plugins", Path("/usr/share/ansible/plugins"))
    plugins += [place / kind for place in shared for kind in ("vars", "inventory")]
    return (
        source.suffix == ".ini"
        and source.is_file()
        and not os.access(source, os.X_OK)
        and not any(name.startswith("ANSIBLE_") for name in environment)
        and not any(path.exists() for path in (*settings, *plugins))
    )


def _ansible() -> Path | None:
    """Return the file of ansible-core that changes with its version."""
    found = find_spec("ansible")
    places = found.submodule_search_locations if found is not None else None
    return Path(next(iter(places)), "release.py") if places else None


def _content(file: Path) -> bytes | None:
    with contextlib.suppress(OSError):
        return file.read_bytes() if file.is_file() else None
    return None


def _variable_files(directories: Iterable[Path]) -> Iterator[Path]:
    for directory in dict.fromkeys(directories):
        for name in _VARIABLES:
            found = sorted((directory / name).rglob("*"))
            # Ansible follows a link to a directory, rglob does not. The link itself is listed, and since it is no
            # file, the answer is not cached.
            yield from (path for path in found if path.is_symlink() or not path.is_dir())


def _has_secret(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(_SECRET.search(str(name)) or _has_secret(each) for name, each in value.items())
    return isinstance(value, list) and any(map(_has_secret, value))


def _path(key: str) -> Path:
    return cache_directory() / "inventories" / f"{key}.json"


_HOST = re.compile(r"(?!-)[\w.:-]+|\[[\da-fA-F:.]+\]:\d+")
_BARE = re.compile(r"\[[\da-fA-F:.]+\]")
"""An IPv6 address in brackets without a port, which needs none."""


def is_host_list(source: Path) -> bool:
    """Return whether `source` is a host list, by Ansible's rule: it has a comma, and there is no file of that name."""
    text = str(source)
    return "," in text and "/" not in text and not source.exists()


def hosts_in_list(source: Path) -> tuple[str, ...]:
    """Return the hosts of a host list, in its order. Raises ValueError for an invalid name."""
    words = (name.strip() for name in str(source).split(",") if name.strip())
    names = tuple(dict.fromkeys(word[1:-1] if _BARE.fullmatch(word) else word for word in words))
    if not names:
        raise ValueError("no host is named")
    for name in names:
        if "@" in name:
            raise ValueError(
                f"{name!r}: the user belongs in ~/.ssh/config, or in an inventory, which pylaunch init writes"
            )
        if "%" in name:
            raise ValueError(
                f"{name!r}: the zone after % names an interface of this machine; other hosts cannot use it"
            )
        if not _HOST.fullmatch(name):
            raise ValueError(f"{name!r} is not a host name")
    return names


def host_list(hostset: str) -> str:
    """Return the host list of a host set such as `gpu[01-02],x`. Raises ValueError for an invalid one."""
    return "".join(f"{name}," for name in hosts_in_list(Path(",".join(expand(hostset)) + ",")))


_NOT_MY_FORMAT = "no root 'plugin' key found"
_BLOCK = re.compile(r"^\[(?:WARNING|ERROR)\]: ", re.MULTILINE)
_FAILED = re.compile(r"Failed to parse inventory with '\w+' plugin: (?:Failed to parse inventory: )?(.*)")
_ORIGIN = re.compile(r"^Origin: (?:<inventory plugin '\w+' with source '(.*)'>|(.*?))$", re.MULTILINE)
_SCRIPT_STDERR = "Standard error from inventory script:\n"
_SKIPPED = re.compile(r"^\[WARNING\]: (Skipping .*)$", re.MULTILINE)
_DUPLICATE = re.compile(r"^\[WARNING\]: Found (duplicate mapping key .*)\.\nOrigin: (.*?:\d+)", re.MULTILINE)


def unparsed(stderr: str, directory: str) -> list[str]:
    """Return one line per file that Ansible could not parse, and what an inventory script printed."""
    lines: dict[str, list[str]] = {}
    for block in _BLOCK.split(stderr):
        failed, origin = _FAILED.search(block), _ORIGIN.search(block)
        if failed is None or origin is None or failed[1].startswith(_NOT_MY_FORMAT):
            continue
        place = (origin[1] or origin[2]).removeprefix(f"{directory}/")
        file, _, position = place.partition(":")
        message = failed[1] if failed[1] != "Failed to parse inventory." else _cause(block)
        at = f"{file}:{position.split(':')[0]}" if position else file
        printed = block.partition(_SCRIPT_STDERR)[2].strip().splitlines()
        lines.setdefault(file, [f"{at}: {message.rstrip('.')}", *printed])
    if lines:
        return [line for group in lines.values() for line in group]
    return [line.removeprefix("[ERROR]: ") for line in stderr.splitlines() if line.strip()][-5:]


def _cause(block: str) -> str:
    """Return the innermost cause of a chain."""
    return block.split("<<< caused by >>>")[-1].strip().splitlines()[0]


def ignored(stderr: str, directory: str) -> list[str]:
    """Return the parts of the inventory that Ansible ignored with a warning."""
    twice = [f"{place.removeprefix(f'{directory}/')}: {warning}" for warning, place in _DUPLICATE.findall(stderr)]
    return twice + _SKIPPED.findall(stderr)


SETTINGS = "pylaunch.toml"


class _Environment(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")] | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    inventory: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    env: _Environment = msgspec.field(default_factory=_Environment)


@dataclass(frozen=True)
class Settings:
    """Values of the file; those of an absent file are empty."""

    inventory: Path | None = None
    env_name: str | None = None
    """Python environment of this project: the name of its directory on the hosts."""


def read_settings(directory: Path) -> Settings:
    """Return the settings of `directory`. Raises UsageError for a file that cannot be read or has other keys."""
    settings = directory / SETTINGS
    try:
        text = settings.read_bytes()
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise UsageError(f"{SETTINGS}: cannot be read: {error.strerror}", hint=f"ls -ld {SETTINGS}") from None
    import tomllib  # noqa: PLC0415 -- 2 ms that a project without settings does not need

    try:
        found = converted(tomllib.loads(text.decode()), _File)
        inventory = found.inventory and settings.parent / Path(found.inventory).expanduser()
    except (ValueError, RuntimeError, msgspec.ValidationError) as error:  # RuntimeError: no such ~user, or too deep.
        keys = 'inventory = "cluster.ini", and below [env]: name = "vision" (letters, digits, . _ -)'
        raise UsageError(f"{SETTINGS}: {error}", hint=keys) from None
    return Settings(inventory or None, found.env.name)


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
    key = cache_key(source, Path.cwd(), os.environ)
    if key is not None and (answered := kept_answer(key)) is not None:
        return answered
    program = Path(sys.executable).parent / "ansible-inventory"
    argv = (str(program), "-i", str(source), "--list")
    answer = process.run(argv, env=ANSIBLE_SETTINGS, timeout_s=ANSWER_TIMEOUT_S)
    if not answer.ok:
        by_hand = quoted(("ansible-inventory", "-i", _shown(source), "--list"))
        vault = "give Ansible the vault password: ANSIBLE_VAULT_PASSWORD_FILE, or vault_password_file in ansible.cfg"
        raise InventoryError(
            f"Ansible cannot read the inventory {_shown(source)}",
            evidence=unparsed(answer.stderr, str(_directory(source))),
            hint=vault if "vault secrets" in answer.stderr else by_hand,
        )
    if skipped := ignored(answer.stderr, str(_directory(source))):
        raise InventoryError(
            f"Ansible would ignore a part of the inventory {_shown(source)}",
            evidence=skipped,
            hint="remove or correct it; a group in YAML holds only hosts, vars and children",
        )
    if key is not None:
        keep_answer(key, answer.stdout)
    return Listing.parse(answer.stdout)


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
    hosts, complaints = read_hosts(listing)
    if complaints:
        evidence = explained(complaints)
        count = f"{len(evidence)} errors" if len(evidence) > 1 else "1 error"
        raise InventoryError(
            f"{count} in the inventory {_shown(source)}",
            evidence=evidence,
            hint="every key is described in pylaunch help inventory",
        )
    return Cluster(hosts, sources=(str(source),), known_hosts=str(project_known_hosts(source)))


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


def known_secrets(plan: RunPlan, ours: Mapping[str, str]) -> set[str]:
    """Return the secret values in `ours` (the environment of this process), in the plan and in the inventory."""
    job = plan.job
    values = {value for name, value in ours.items() if sounds_secret(name) or name in job.secrets}
    values |= {value for name, value in job.env.items() if sounds_secret(name)}
    values |= set(secrets_in(json.dumps(msgspec.to_builtins(plan))))
    for source in plan.sources:
        values |= {value for text in texts_of(Path(source)).values() for value in secrets_in(text)}
    return values
