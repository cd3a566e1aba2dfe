"""Inputs of roles: one digest for each role and host, from the inventory as it is now and the files of the role. Pure.

A variable is an input of a role if the role's files name it, or the value of another input does. The variables of all
hosts and the groups are inputs of a role that names `hostvars` or `groups`. Ansible renders the templates, so a digest
contains their text; a value whose text does not determine it (a lookup, the time) gives a new digest to each process.
"""

import functools
import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import UsageError
from pylaunch.inventory.cluster import Listing
from pylaunch.inventory.keys import UNPRIVILEGED, is_true
from pylaunch.model.hostset import fold
from pylaunch.transport.collection import shared_files

LIKENESS = 0.9
"""Similarity (0 to 1) from which a name is a misspelling. Users have variables of their own with the same prefix."""

_WORD = re.compile(r"\w+")
_OPAQUE = re.compile(r"\{[{%][^}]*\b(lookup|query|q|now|random|vars|varnames)\b")


@dataclass(frozen=True)
class Wanted:
    """The roles of each host and their inputs."""

    hosts: Mapping[str, Mapping[str, str]]
    """Host → role → digest of the inputs, in the order in which roles run."""

    roles: tuple[str, ...] = ()
    """All requested roles of the playbook, also those that do not apply to these hosts."""

    variables: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Variables of the inventory, by host; templates are not rendered."""

    def is_unprivileged(self, host: str) -> bool:
        """Roles that need root do not apply to `host`."""
        return is_true(self.variables.get(host, {}).get(UNPRIVILEGED, False))


def wanted_of(
    collection: Path,
    listing: Listing,
    hosts: Sequence[str],
    *,
    only: Sequence[str] = (),
    given: Mapping[str, object] | None = None,
) -> Wanted:
    """Return the inputs of every role of the playbook site.yml, or those in `only`, on `hosts`.

    `collection` is the directory of `playbooks/`, `roles/` and `plugins/`; `given` are values beside the inventory.
    Raises UsageError for a role the playbook does not have and for misspelt variables of roles.
    """
    listed = _listed_roles(collection / "playbooks" / "site.yml")
    if unknown := sorted(set(only) - listed.keys()):
        raise UsageError(f"no such role: {', '.join(unknown)}", hint=f"roles: {', '.join(listed)}")
    variables = {host: listing.variables.get(host, {}) for host in listing.hosts_of("all")}
    own = {host: variables.get(host, {}) for host in hosts}
    modules = (*sorted((collection / "plugins").glob("*/*.py")), *shared_files())
    files = {role: _files(collection / "roles" / role, modules) for role in listed}
    _refuse_misspelt(own, {role: words for role, (words, _) in files.items()})
    groups = {name: listing.hosts_of(name) for name in listing.groups}
    chosen = [role for role in listed if not only or role in only]
    digests = {role: _digests(own, variables, groups, files[role], given or {}) for role in chosen}
    unprivileged = {host for host in hosts if is_true(own[host].get(UNPRIVILEGED, False))}
    of_hosts = {
        host: {role: digests[role][host] for role in chosen if not (listed[role] and host in unprivileged)}
        for host in hosts
    }
    return Wanted(of_hosts, tuple(chosen), own)


def _listed_roles(playbook: Path) -> dict[str, bool]:
    """Return the roles of a playbook, and whether each depends on UNPRIVILEGED."""
    plays = yaml.safe_load(playbook.read_text(encoding="utf-8"))
    entries = [entry for play in plays for entry in play.get("roles", ())]
    return {entry["role"].rpartition(".")[2]: UNPRIVILEGED in str(entry.get("when", "")) for entry in entries}


@functools.cache
def _files(role: Path, modules: tuple[Path, ...]) -> tuple[frozenset[str], str]:
    """Return the words in the files of a role, and one digest of these files and of the modules of all roles."""
    words: set[str] = set()
    digest = hashlib.sha256()
    own = [path for path in sorted(role.rglob("*")) if path.suffix != ".md"]
    for path in (*own, *modules):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            digest.update(f"{path.name} {len(content)}\n".encode() + content)
            words |= set(_WORD.findall(content.decode("utf-8", "replace"))) if path in own else set()
    return frozenset(words), digest.hexdigest()


def _digests(
    own: Mapping[str, Mapping[str, object]],
    variables: Mapping[str, Mapping[str, object]],
    groups: Mapping[str, Sequence[str]],
    files: tuple[frozenset[str], str],
    given: Mapping[str, object],
) -> dict[str, str]:
    words, content = files
    inputs = {host: dict(_inputs({**variables.get(host, {}), **given}, words)) for host in {**variables, **own}}
    named = {word for each in inputs.values() for value in each.values() for word in _words(value)} | words
    shared = [groups, inputs] if named & {"hostvars", "groups"} else []
    return {host: _digest([content, host, inputs[host], shared]) for host in own}


def _inputs(variables: Mapping[str, object], words: frozenset[str]) -> Iterator[tuple[str, object]]:
    """Yield the variables that `words` name, and those that their values name."""
    seen: set[str] = set()
    waiting = variables.keys() & words
    while waiting:
        seen |= waiting
        for name in sorted(waiting):
            yield name, (variables[name], _per_process()) if _OPAQUE.search(repr(variables[name])) else variables[name]
        waiting = variables.keys() & {word for name in waiting for word in _words(variables[name])} - seen


def _words(value: object) -> set[str]:
    return set(_WORD.findall(repr(value)))


@functools.cache
def _per_process() -> str:
    return uuid.uuid4().hex


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _refuse_misspelt(hosts: Mapping[str, Mapping[str, object]], roles: Mapping[str, frozenset[str]]) -> None:
    """Raise UsageError for variables whose names are almost those of roles."""
    known = set[str]().union(*roles.values())
    found: dict[str, list[str]] = {}
    for host, variables in hosts.items():
        for name in variables:
            is_unknown = name not in known and name.startswith(tuple(f"{role}_" for role in roles))
            if is_unknown and (likely := get_close_matches(name, sorted(known), n=1, cutoff=LIKENESS)):
                found.setdefault(f"{name}: unknown variable; did you mean {likely[0]}?", []).append(host)
    if found:
        raise UsageError(
            f"{len(found)} {'error' if len(found) == 1 else 'errors'} in variables of roles",
            evidence=[f"{fold(names)}: {complaint}" for complaint, names in found.items()],
            hint="the variables of a role: pylaunch help role-ROLE",
        )
