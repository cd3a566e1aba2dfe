"""Variables of a run: plain ones, and secrets, which are never recorded. Lines of the file behind `--env-file`:

    # a comment, in a line of its own
    NAME=value            blanks around it are not part of it; a comment may follow after a blank and #
    NAME='value'          as it is, blanks and # included
    NAME="value"          the same, with \\n, \\t, \\" and \\\\ for a newline, a tab, a quote and a backslash
    NAME                  the value that pylaunch itself has
    export NAME=value     `export` is allowed in front of all of these

Nothing is expanded: $HOME stays $HOME.
"""

import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.model.job import VARIABLE
from pylaunch.model.secret import Secrets, sounds_secret
from pylaunch.terminal import console
from pylaunch.terminal.options import text_of

_SINGLE = re.compile(r"'([^']*)'\s*(?:#.*)?")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


@dataclass(frozen=True)
class Environment:
    """Variables of a run by name."""

    plain: Mapping[str, str]
    secrets: Secrets


def given(variables: Sequence[str], files: Sequence[str], names: Sequence[str], ours: Mapping[str, str]) -> Environment:
    """Return the variables of --env, --env-file and --secret; `ours` is the environment of pylaunch.

    A variable with the name of a secret becomes one, whichever option sets it. Raises UsageError for files and
    variables that do not exist or cannot be read, and for variables that are set as plain and as secret.
    """
    plain: dict[str, str] = {}
    for path in files:
        found = read_environment(text_of(path, "--env-file"), path, ours)
        if any(map(sounds_secret, found)):
            _warn_if_open(path)
        plain |= found
    for word in variables:
        name, value = _variable(word, ours)
        plain[name] = value
    secrets: dict[str, str] = {}
    for word in names:
        name = _secret_name(word, ours)
        secrets[name] = ours[name]
    both = sorted(plain.keys() & secrets.keys())
    if both:
        raise UsageError(f"{', '.join(both)}: given as a variable and as a secret", hint="omit --env")
    secrets |= {name: value for name, value in plain.items() if sounds_secret(name)}
    return Environment({name: value for name, value in plain.items() if name not in secrets}, Secrets(secrets))


def earlier_secrets(names: Sequence[str], ours: Mapping[str, str]) -> Secrets:
    """Return the secrets `names` of an earlier run with their values in `ours`. Raises UsageError for a missing one."""
    return Secrets({_secret_name(name, ours): ours[name] for name in names})


def _variable(word: str, ours: Mapping[str, str]) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not VARIABLE.fullmatch(name):
        raise UsageError(f"--env {name}: expected NAME=VALUE or NAME", hint="--env NCCL_DEBUG=WARN")
    if equals:
        return name, value
    if name not in ours:
        raise UsageError(f"--env {name}: there is no such variable here", hint=f"--env {name}=VALUE")
    return name, ours[name]


def _secret_name(word: str, ours: Mapping[str, str]) -> str:
    name, equals, _ = word.partition("=")
    if not VARIABLE.fullmatch(name):
        raise UsageError("--secret: expected the NAME of a variable", hint="--secret HF_TOKEN")
    if equals:
        raise UsageError(
            f"--secret {name}=…: a value on a command line can be read by everybody on this machine",
            hint=f"--secret {name}, with {name} in the environment",
        )
    if name not in ours:
        raise UsageError(f"--secret {name}: there is no such variable here", hint=f"read -rs {name} && export {name}")
    return name


def _warn_if_open(path: str) -> None:
    mode = Path(path).stat().st_mode
    if stat.S_ISREG(mode) and mode & 0o077:
        console.say(f"warning: {path} is open to others (mode {stat.S_IMODE(mode):04o}); close it: chmod 600 {path}")


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
    if not VARIABLE.fullmatch(name):
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
