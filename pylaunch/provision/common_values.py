"""Values that all hosts have in common: their templates are rendered once.

A template renders the same for every host if it reads, directly or through other templates, no variable whose value
differs between the hosts. Jinja's parser names the variables that a template reads. What it cannot name (`vars`,
includes, lookups other than of files, unknown filters) makes a template depend on its host.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.template import is_trusted_as_template
from jinja2 import Environment, TemplateError, meta, nodes

_OPAQUE = frozenset(("vars", "varnames", "query", "q", "now", "omit", "undef"))
"""Functions and variables by which a template reads what its text does not name."""

_FILE_LOOKUPS = ("ansible.builtin.file", "file")
_TEMPLATE_LOOKUPS = ("ansible.builtin.template", "template")
_PURE_FILTERS = frozenset((
    "abs", "attr", "b64decode", "b64encode", "basename", "batch", "bool", "capitalize", "combine", "count", "d",
    "default", "dict2items", "dictsort", "difference", "dirname", "extract", "first", "flatten", "float", "format",
    "from_json", "groupby", "indent", "int", "intersect", "items", "items2dict", "join", "last", "length", "list",
    "lower", "map",
    "max", "min", "regex_escape", "regex_findall", "regex_replace", "regex_search", "reject", "rejectattr", "replace",
    "reverse", "round", "select", "selectattr", "slice", "sort", "split", "splitext", "string", "sum",
    "symmetric_difference", "ternary", "title", "to_json", "to_nice_json", "trim", "truncate", "union", "unique",
    "upper", "values", "zip",
))  # fmt: skip
"""Filters whose result depends on their arguments alone."""

_CALLS_A_FILTER = "map"
_MARKS = ("{{", "{%", "{#")


class _AnyName(dict[str, Any]):
    """Filters or tests of an environment that only parses: Ansible knows more of them than Jinja."""

    def get(self, key: str, default: Any = None) -> Any:
        return str


class Dependence:
    """Answers for one role which of its templates depend on the host."""

    def __init__(self, values: Mapping[str, Any], differing: Collection[str], search_path: Sequence[Path]) -> None:
        self._values = values
        self.differing = differing
        self._search_path = search_path
        self._environment = Environment(autoescape=False, extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"])
        self._environment.filters = self._environment.tests = _AnyName()
        self._known: dict[str, bool] = {}
        self._reads: dict[str, frozenset[str] | None] = {}

    def of_variable(self, name: str) -> bool:
        """Return whether the value of a variable may differ between hosts."""
        if name in self.differing or name in _OPAQUE:
            return True
        if name not in self._known:
            self._known[name] = True  # Of a variable that leads to itself.
            self._known[name] = any(map(self.of_template, templates(self._values.get(name))))
        return self._known[name]

    def of_template(self, text: str) -> bool:
        """Return whether the result of a template may differ between hosts."""
        names = self.reads(text)
        return names is None or any(map(self.of_variable, names))

    def of_condition(self, condition: object) -> bool:
        """Return whether a condition, an expression without braces, may differ between hosts."""
        return not isinstance(condition, bool) and self.of_template(f"{{{{ {condition} }}}}")

    def reads(self, text: str) -> frozenset[str] | None:
        """Return the variables that a template and its files read; None where the text does not name them all."""
        if text not in self._reads:
            self._reads[text] = None  # Of a file that looks itself up.
            with warnings.catch_warnings(), contextlib.suppress(TemplateError):
                # Ansible doubles the backslashes of variables before Jinja reads them.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._reads[text] = self._named(self._environment.parse(text))
        return self._reads[text]

    def _named(self, tree: nodes.Template) -> frozenset[str] | None:
        if next(tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)), None) is not None:
            return None
        if not all(map(_is_pure, tree.find_all(nodes.Filter))):
            return None
        names = meta.find_undeclared_variables(tree)
        lookups = [call for call in tree.find_all(nodes.Call) if _is_name(call.node, "lookup")]
        if sum(_is_name(name, "lookup") for name in tree.find_all(nodes.Name)) != len(lookups):
            return None
        for call in lookups:
            read = self._read_by(call)
            if read is None:
                return None
            names |= read
        return frozenset(names - {"lookup"})

    def _read_by(self, call: nodes.Call) -> frozenset[str] | None:
        """Return the variables that a lookup reads, beyond its arguments; None for lookups of other than files."""
        match call.args:
            case [nodes.Const(value=plugin), *_] if plugin in _FILE_LOOKUPS:
                return frozenset()
            case [nodes.Const(value=plugin), nodes.Const(value=str() as file)] if plugin in _TEMPLATE_LOOKUPS:
                path = self._found(file)
                plain = not call.kwargs and call.dyn_args is None and call.dyn_kwargs is None
                return self.reads(path.read_text(encoding="utf-8")) if path is not None and plain else None
        return None

    def _found(self, file: str) -> Path | None:
        """Return the path of a template, as Ansible's lookup searches for it."""
        candidates = (place for each in self._search_path for place in (each / "templates" / file, each / file))
        return next((path for path in candidates if path.is_file()), None)


def _is_name(node: nodes.Node, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.name == name


def _is_pure(used: nodes.Filter) -> bool:
    name = used.name.removeprefix("ansible.builtin.")
    if name == _CALLS_A_FILTER and used.args:
        match used.args[0]:
            case nodes.Const(value=str() as called):
                return called.removeprefix("ansible.builtin.") in _PURE_FILTERS
        return False
    return name in _PURE_FILTERS


def templates(value: Any) -> Iterator[str]:
    """Yield the strings in `value` that Ansible renders."""
    return (text for text in _marked(value) if is_trusted_as_template(text))


def _marked(value: Any) -> Iterator[str]:
    match value:
        case str():
            if any(mark in value for mark in _MARKS):
                yield value
        case dict():  # Not `hostvars`, whose values Ansible renders with the variables of the other host.
            for each in value.values():
                yield from _marked(each)
        case list() | tuple():
            for each in value:
                yield from _marked(each)


def differing(variables: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the names whose values are not the same in all `variables`, those of one host each."""
    first, *others = variables
    # As text: 1, 1.0 and True are equal and render differently.
    texts = {name: repr(value) for name, value in first.items()}
    marked = {name: list(templates(value)) for name, value in first.items() if next(_marked(value), None) is not None}
    found: set[str] = set()
    for other in others:
        found |= first.keys() ^ other.keys()
        for name, value in other.items():
            if name in found or value is first[name]:
                continue
            # Of equal texts, one may be a template and the other not.
            if repr(value) != texts[name] or (name in marked and list(templates(value)) != marked[name]):
                found.add(name)
    return frozenset(found)


def in_common(
    name: str, values: Mapping[str, Any], dependence: Dependence, render: Callable[[str], Any]
) -> dict[str, Any]:
    """Return the variable `name` and those that it reads, with the templates rendered that all hosts have in common.

    A template that cannot be rendered is left to each host, which may not need it.
    """
    rendered: dict[str, Any] = {}
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each in rendered or each not in values or each in dependence.differing:
            continue
        found = list(templates(values[each]))
        if found:
            rendered[each] = _rendered(values[each], dependence, render)
            waiting += (read for text in found if dependence.of_template(text) for read in dependence.reads(text) or ())
    return rendered


def _rendered(value: Any, dependence: Dependence, render: Callable[[str], Any]) -> Any:
    match value:
        case str():
            if next(templates(value), None) is None or dependence.of_template(value):
                return value
            try:
                result = render(value)
            except AnsibleError:
                return value
            return value if any(True for _ in templates(result)) else result
        case dict():
            return {key: _rendered(each, dependence, render) for key, each in value.items()}
        case list() | tuple():
            return [_rendered(each, dependence, render) for each in value]
    return value
