"""Variables that templates read: where hosts agree in all of these, a template is rendered once.

Jinja's parser names what a template reads. Where it cannot (`vars`, lookups other than of files, includes), every host
is rendered for itself.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible.template import is_trusted_as_template
from jinja2 import Environment, TemplateError, nodes

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
