"""All variables that are known, by name."""

from __future__ import annotations

from difflib import get_close_matches

from pylaunch.features.variables.judgement import frameworks, nccl
from pylaunch.features.variables.judgement.variable import UnreadVariable, Variable

VARIABLES = {each.name: each for each in (*nccl.VARIABLES, *frameworks.VARIABLES)}
UNREAD: dict[str, UnreadVariable] = {each.name: each for each in (*nccl.UNREAD, *frameworks.UNREAD)}

FAMILIES = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "TORCHELASTIC_", "GLOO_", "JAX_", "XLA_PYTHON_CLIENT_", "XLA_CLIENT_")
"""Names that begin so are known completely: one that is not in the registry is a mistake, or newer than it."""

_ONE_SLIP = 0.92
"""Likeness of two names of these families that differ by one or two letters."""

_ALIKE = 0.8


def is_of_a_family(name: str) -> bool:
    """`name` belongs to somebody whose variables are all known."""
    return name.startswith(FAMILIES)


def misspelled(name: str) -> Variable | None:
    """Return the variable that `name` misspells by a letter or two, if there is one."""
    return _nearest(name, _ONE_SLIP)


def similar(name: str) -> Variable | None:
    """Return the variable whose name is most like `name`, if any is like it."""
    return _nearest(name, _ALIKE)


def _nearest(name: str, likeness: float) -> Variable | None:
    found = get_close_matches(name, VARIABLES, n=1, cutoff=likeness)
    return VARIABLES[found[0]] if found else None
