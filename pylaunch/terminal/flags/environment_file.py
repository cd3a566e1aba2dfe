"""The file behind `--env-file`: one variable a line, every complaint at once.

    # a comment, in a line of its own
    NAME=value            blanks around it are not part of it; a comment may follow after a blank and #
    NAME='value'          as it is, blanks and # included
    NAME="value"          the same, with \\n, \\t, \\" and \\\\ for a newline, a tab, a quote and a backslash
    NAME                  the value that pylaunch itself has
    export NAME=value     `export` is allowed in front of all of these

Nothing is expanded: $HOME stays $HOME.
"""

import re
from collections.abc import Mapping

from pylaunch.errors import UsageError

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SINGLE = re.compile(r"'([^']*)'\s*(?:#.*)?")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


class _ComplaintError(Exception):
    """Error in one line. It never quotes a value, which may be a secret."""


def read_environment(text: str, path: str, ours: Mapping[str, str]) -> dict[str, str]:
    """Return the variables in `text`; `ours` has the values of names that are given without one.

    Raises UsageError with every line that is not of the grammar above, as path:line.
    """
    found: dict[str, str] = {}
    first: dict[str, int] = {}
    complaints = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            assignment = _assignment(line.strip(), ours)
            if assignment is None:
                continue
            name, value = assignment
            if name in found:
                raise _ComplaintError(f"{name} is set a second time, first in line {first[name]}")
        except _ComplaintError as complaint:
            complaints.append(f"{path}:{number}: {complaint}")
            continue
        found[name], first[name] = value, number
    if complaints:
        raise UsageError(f"{path} cannot be used", evidence=complaints, hint="one NAME=VALUE a line")
    return found


def _assignment(line: str, ours: Mapping[str, str]) -> tuple[str, str] | None:
    if not line or line.startswith("#"):
        return None
    name, equals, value = line.removeprefix("export ").strip().partition("=")
    if not NAME.fullmatch(name):
        raise _ComplaintError("expected NAME=VALUE, and a name is letters, digits and _")
    if not equals:
        if name not in ours:
            raise _ComplaintError(f"{name} stands alone, and pylaunch itself has no such variable")
        return name, ours[name]
    if "\0" in value:
        raise _ComplaintError(f"the value of {name} contains a NUL")
    return name, _unquoted(name, value.strip())


def _unquoted(name: str, value: str) -> str:
    if value.startswith("'"):
        if not (quoted := _SINGLE.fullmatch(value)):
            raise _ComplaintError(f"the value of {name} begins with ' and does not end with it")
        return quoted[1]
    if value.startswith('"'):
        if not (quoted := _DOUBLE.fullmatch(value)):
            raise _ComplaintError(f'the value of {name} begins with " and does not end with it')
        return _ESCAPE.sub(lambda escape: _character(name, escape[1]), quoted[1])
    return re.sub(r"(^|\s+)#.*", "", value)


def _character(name: str, letter: str) -> str:
    if letter not in _ESCAPES:
        raise _ComplaintError(f'the value of {name} contains \\{letter}; known are \\n, \\t, \\" and \\\\')
    return _ESCAPES[letter]
