"""Flags that set variables of a run: plain ones, and secrets, which are never recorded."""

import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.model.secret import Secrets, sounds_secret
from pylaunch.terminal import console
from pylaunch.terminal.flags.environment_file import NAME, read_environment
from pylaunch.terminal.options import text_of, together

options = together(
    click.option(
        "--env", "env", multiple=True, metavar="NAME[=VALUE]",
        help="Set in every rank; without =VALUE the value that pylaunch itself has. Repeatable.",
    ),
    click.option(
        "--env-file", "env_file", multiple=True, metavar="FILE",
        help="Variables for every rank, one NAME=VALUE a line; --env wins over it. Repeatable.",
    ),
    click.option(
        "--secret", "secret", multiple=True, metavar="NAME",
        help="Give ranks this variable of ours; its value is never printed or recorded. Repeatable.",
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class EnvironmentFlags:
    """Flags of `options`, as click parsed them."""

    env: tuple[str, ...] = ()
    env_file: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()


@dataclass(frozen=True)
class Environment:
    """Variables of a run by name."""

    plain: Mapping[str, str]
    secrets: Secrets


def given(flags: EnvironmentFlags, ours: Mapping[str, str]) -> Environment:
    """Return the variables that `flags` set; `ours` is the environment of pylaunch.

    A variable with the name of a secret becomes one, whichever flag sets it. Raises UsageError for files and variables
    that do not exist or cannot be read, and for variables that are set as plain and as secret.
    """
    plain: dict[str, str] = {}
    for path in flags.env_file:
        found = read_environment(text_of(path, "--env-file"), path, ours)
        if any(map(sounds_secret, found)):
            _warn_if_open(path)
        plain |= found
    for word in flags.env:
        name, value = _variable(word, ours)
        plain[name] = value
    secrets: dict[str, str] = {}
    for word in flags.secret:
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
    if not NAME.fullmatch(name):
        raise UsageError(f"--env {name}: expected NAME=VALUE or NAME", hint="--env NCCL_DEBUG=WARN")
    if equals:
        return name, value
    if name not in ours:
        raise UsageError(f"--env {name}: there is no such variable here", hint=f"--env {name}=VALUE")
    return name, ours[name]


def _secret_name(word: str, ours: Mapping[str, str]) -> str:
    name, equals, _ = word.partition("=")
    if not NAME.fullmatch(name):
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
