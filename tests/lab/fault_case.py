"""A fault of the matrix: how it is made, and who must find it where."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from lab.lab import Lab


@dataclass(frozen=True)
class Case:
    """One thing that is wrong on some hosts of a lab whose every other finding is absent."""

    name: str
    inject: Callable[[Lab], AbstractContextManager[None]]
    """Makes it so, and good again at the end."""

    check: str
    """Id of the check that must find it."""

    hosts: tuple[str, ...]
    check_arguments: tuple[str, ...] = ()
    """Further words for `pylaunch check`, before its `--`."""

    also: tuple[str, ...] = ()
    """Ids of checks that rightly find a consequence of it, on the same hosts."""
