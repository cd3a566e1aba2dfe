"""Command lines as tuples of words. They become one string in one place, here."""

import shlex
from collections.abc import Iterable, Mapping

Argv = tuple[str, ...]


def quoted(argv: Iterable[str]) -> str:
    """`argv` as one POSIX shell line; every word survives, whatever is in it."""
    return shlex.join(argv)


def quoted_with_env(env: Mapping[str, str], argv: Iterable[str]) -> str:
    """`argv` after `K=V` words, as a person would type it."""
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in env.items()), quoted(argv)])


def pylaunch(*words: str) -> str:
    """Return a pylaunch command for a hint; the view adds the inventory that was given."""
    return quoted(("pylaunch", *words))
