"""Apply `--limit`: an Ansible pattern of hosts and groups, with ranges such as `gpu[01-04]`. Pure.

`gpu[01-04],storage` and `gpu[01-04]:storage` are unions, `gpu*` and `gpu?` globs over hosts and groups, `!gpu01`
excludes, and `&rack1` intersects. A pattern that only excludes or intersects starts with all hosts.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import expand, fold

_COMMAS = re.compile(r",(?![^\[]*\])")
_COLONS = re.compile(r":(?![^\[]*\])")
_SYNTAX = "hosts and groups, with ranges and patterns: --limit 'gpu[01-04]', --limit 'gpu*,!gpu03'"


def limited(cluster: Cluster, limit: str, groups: Mapping[str, Sequence[str]]) -> Cluster:
    """Return the hosts of `cluster` that match `limit`. Raises UsageError for names that match nothing."""
    there = set(cluster.names)
    choices = {group: inside for group, hosts in groups.items() if (inside := set(hosts) & there)}
    choices |= {name: {name} for name in cluster.names}
    found: dict[str, set[str]] = {"": set(), "!": set(), "&": set()}
    unknown: list[str] = []
    words = list(_words(limit, choices))
    kept = set(there)
    for sign, pattern in words:
        hosts, missing = _matched(limit, pattern, choices)
        unknown += missing
        found[sign] |= hosts
        if sign == "&":
            kept &= hosts
    if unknown or not words:
        near = difflib.get_close_matches((unknown or [limit])[0], choices, n=3)
        raise UsageError(
            f"--limit {limit}: not in the cluster: {fold(unknown) or 'no host named'}",
            hint=f"did you mean {' or '.join(near)}?" if near else f"the cluster is {fold(cluster.names)}",
        )
    start = found[""] if any(sign == "" for sign, _ in words) else there
    wanted = (start & kept) - found["!"]
    if not wanted:
        raise UsageError(f"--limit {limit}: no host matches", hint=f"the cluster is {fold(cluster.names)}")
    return cluster.only(wanted)


def _words(limit: str, choices: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Return sign ("", "!" or "&") and pattern of each part."""
    for piece in _COMMAS.split(limit):
        # A host of the cluster may have colons in its name, as IPv6 addresses do.
        whole = piece.strip().lstrip("!&") in choices
        for part in (piece,) if whole else _COLONS.split(piece):
            word = part.strip()
            sign = word[:1] if word[:1] in ("!", "&") else ""
            if pattern := word.removeprefix(sign):
                yield sign, pattern


def _matched(limit: str, pattern: str, choices: Mapping[str, set[str]]) -> tuple[set[str], list[str]]:
    """Return the hosts that match `pattern`, and the parts of it that match none."""
    if pattern in choices:
        return choices[pattern], []
    try:
        names = expand(pattern)
    except ValueError as error:
        raise UsageError(f"--limit {limit}: {error}", hint=_SYNTAX) from None
    hosts: set[str] = set()
    unknown = []
    for name in names:
        matching = [choice for choice in choices if fnmatchcase(choice, name)] if _is_glob(name) else [name]
        inside = [choices[choice] for choice in matching if choice in choices]
        hosts.update(*inside)
        if not inside:
            unknown.append(name)
    return hosts, unknown


def _is_glob(name: str) -> bool:
    return "*" in name or "?" in name
