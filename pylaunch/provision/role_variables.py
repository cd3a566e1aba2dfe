"""Check the role variables that an inventory sets against the roles' `meta/argument_specs.yml`. Pure.

Ansible checks types when a role runs, which is after the plan was shown and hosts were asked, and a variable with a
misspelt name is never an error for it: `firewall_enabld=true` would leave the firewall off. Templates and values from a
vault are left to Ansible: a template may depend on facts of the host, and a secret must not be printed.

Where hosts agree in all variables that a template reads, as Jinja's parser names them, it is rendered once. Where the
parser cannot (`vars`, lookups other than of files, includes), every host is rendered for itself.
"""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.template import is_trusted_as_template
from jinja2 import Environment, TemplateError, nodes

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


_OPAQUE = frozenset(("vars", "varnames", "query", "q"))
_INCLUDES = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
_FILE_LOOKUP = re.compile(r"\blookup\('ansible\.builtin\.(?:file'|template', '([\w.]+)'\))")
_JINJA = Environment(autoescape=False, extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"])


class HostVariables:
    """The variables of the inventory, by host: which of them a template reads, and where these differ."""

    def __init__(self, variables: Sequence[Mapping[str, Any]]) -> None:
        # As text: 1, 1.0 and True are equal and render differently; and of equal texts, one may be no template.
        shown = [{name: f"{value!r} {list(_templates(value))}" for name, value in own.items()} for own in variables]
        self._values: dict[str, dict[str, Any]] = {}
        for own, texts in zip(variables, shown, strict=True):
            for name, text in texts.items():
                self._values.setdefault(name, {})[text] = own[name]
        shared = {name for name, found in self._values.items() if len(found) == 1}.intersection(*shown)
        self._own = [{name: text for name, text in texts.items() if name not in shared} for texts in shown]

    def cases(
        self, expressions: Sequence[object], files: Mapping[str, str], layers: Sequence[Mapping[str, Any]]
    ) -> list[object]:
        """Return one value per host, equal for those where the expressions and all that they read have the same values.

        The `files` are the templates of the role, the `layers` its variables.
        """
        read: set[str] = set()
        seen: set[str] = set()
        waiting = {f"{{{{ {expression} }}}}" for expression in expressions}
        while waiting:
            seen |= waiting
            looked_up = {name for text in waiting for name in _FILE_LOOKUP.findall(text) if name}
            named = [_named(text) for text in waiting]
            if None in named or not files.keys() >= looked_up:
                return list(range(len(self._own)))
            found = {name for names in named for name in names or ()} - read
            read |= found
            values = [layer[name] for name in found for layer in (*layers, self._values) if name in layer]
            waiting = {*_templates(values), *(files[name] for name in looked_up)} - seen
        return [tuple((name, own[name]) for name in sorted(read & own.keys())) for own in self._own]


def _named(text: str) -> set[str] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Ansible doubles backslashes before Jinja reads them.
        try:
            tree = _JINJA.parse(text)
        except TemplateError:
            return None
    names = [name.name for name in tree.find_all(nodes.Name)]
    opaque = not _OPAQUE.isdisjoint(names) or any(True for _ in tree.find_all(_INCLUDES))
    return None if opaque or names.count("lookup") != len(_FILE_LOOKUP.findall(text)) else set(names)


def _templates(value: Any) -> Iterator[str]:
    """Yield the strings in `value` that Ansible renders."""
    match value:
        case str() if is_trusted_as_template(value):
            yield value
        case dict():  # Not `hostvars`, whose values Ansible renders with the variables of the other host.
            for each in value.values():
                yield from _templates(each)
        case list() | tuple():
            for each in value:
                yield from _templates(each)
