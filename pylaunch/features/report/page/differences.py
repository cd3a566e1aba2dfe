"""Facts and variables that differ between the nodes of a run. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.model.hostset import alike
from pylaunch.model.secret import MASK, sounds_secret

MOST_ROWS = 100
ABSENT = "not set"
PER_NODE = frozenset({"CUDA_VISIBLE_DEVICES", "PYLAUNCH_NODE_RANK", "GROUP_RANK"})
"""Variables that differ in healthy runs."""


@dataclass(frozen=True)
class Difference:
    """A name with its values by set of hosts."""

    name: str
    values: tuple[tuple[str, str], ...]
    """Hosts, folded, and their value; the most hosts first."""


def differing(by_host: Mapping[str, Mapping[str, str]]) -> tuple[Difference, ...]:
    """Return each name whose value is not the same on every host of `by_host` (host → name → value)."""
    names = sorted({name for values in by_host.values() for name in values} - PER_NODE)
    found = []
    for name in names:
        values = {host: values.get(name, ABSENT) for host, values in by_host.items()}
        if len(set(values.values())) > 1:
            if sounds_secret(name):
                values = dict.fromkeys(values, MASK)
            found.append(Difference(name, tuple(alike({host: (value,) for host, value in values.items()}))))
    return tuple(found[:MOST_ROWS])


def shared(by_host: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the names that have the same value on every host, with that value, without empty ones."""
    first = next(iter(by_host.values()), {})
    return {
        name: value
        for name, value in first.items()
        if value and all(values.get(name) == value for values in by_host.values())
    }
