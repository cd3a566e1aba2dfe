"""Check the role variables that an inventory sets against the roles' `meta/argument_specs.yml`. Pure.

Ansible checks types when a role runs, which is after the plan was shown and hosts were asked, and a variable with a
misspelt name is never an error for it: `firewall_enabld=true` would leave the firewall off. Templates and values from a
vault are left to Ansible: a template may depend on facts of the host, and a secret must not be printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from pylaunch.base.dataclass import dataclass
from pylaunch.model.hostset import fold

LIKENESS = 0.9
"""Similarity (0 to 1) from which a name is a misspelling. Users have variables of their own with the same prefix."""

_TYPES = {"int": "an integer", "float": "a number", "bool": "true or false", "dict": "a dictionary", "list": "a list"}


@dataclass(frozen=True)
class RoleVariables:
    """Variables that a role reads."""

    role: str
    options: Mapping[str, Mapping[str, Any]]
    """Variable → its entry in `argument_specs.yml`."""

    names: frozenset[str]
    """All variables that the role defines, also those without an entry."""


def complaints(roles: Sequence[RoleVariables], hosts: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return one line for each misspelt name and each impossible value in the variables of `hosts`."""
    found: dict[str, list[str]] = {}
    judged: dict[tuple[str, str], str | None] = {}
    for host, variables in hosts.items():
        for name, value in variables.items():
            key = (name, repr(value))
            if key not in judged:
                judged[key] = _complaint(roles, name, value)
            if (complaint := judged[key]) is not None:
                found.setdefault(complaint, []).append(host)
    return tuple(f"{fold(names)}: {complaint}" for complaint, names in found.items())


def _complaint(roles: Sequence[RoleVariables], name: str, value: object) -> str | None:
    for role in roles:
        if name in role.options:
            return _about_value(name, value, role.options[name])
        if name.startswith(f"{role.role}_") and name not in role.names:
            likely = get_close_matches(name, sorted({*role.options, *role.names}), n=1, cutoff=LIKENESS)
            if likely:
                return f"{name}: unknown variable; did you mean {likely[0]}?"
    return None


def _about_value(name: str, value: object, option: Mapping[str, Any]) -> str | None:
    wanted = option.get("type", "str")
    # Ansible's check turns a string into a list or a dictionary, but the role then still gets the string.
    is_converted = (wanted == "list" and not isinstance(value, list)) or (
        wanted == "dict" and not isinstance(value, Mapping)
    )
    if not _is_plain(value):
        return None
    if is_converted or ArgumentSpecValidator({name: option}).validate({name: value}).error_messages:
        return f"{name}: expected {_expected(option)}, got {value!r}"
    return None


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, str | int | float)


def _expected(option: Mapping[str, Any]) -> str:
    wanted = option.get("type", "str")
    if "choices" in option:
        return f"one of {', '.join(map(str, option['choices']))}"
    text = _TYPES.get(wanted, "a string" if wanted == "str" else f"a {wanted}")
    if wanted == "list" and "elements" in option:
        of = option["elements"]
        text += " of dictionaries" if of == "dict" else f" of type {of}"
    if "options" in option:
        keys = [f"{key} (required)" if each.get("required") else key for key, each in option["options"].items()]
        text += f" with the keys {', '.join(keys)}"
    return text
