"""Features: rooms that no other code needs. The types of their doors are in `terminal/doors.py`.

A feature is removed with its folder here, its tests in `tests/features/<name>` and its line in FEATURES
(`scripts/test-without-feature`). Only the command line imports this package, and no feature imports another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from pylaunch.terminal.doors import AtEnd, StartOption, Verb
from pylaunch.terminal.late_import import imported

if TYPE_CHECKING:
    from pylaunch.model.run import RunRecord
    from pylaunch.terminal.doors import Measured

FEATURES = (
    "bench",
    "doctor",
    "drift",
    "explain",
    "lab",
    "render_files",
    "report",
)
"""Packages of this package. Each has VERBS: its verbs by name. REPORT_SECTION and START_OPTION are its other doors."""


def _packages() -> Iterator[ModuleType]:
    for name in FEATURES:
        yield imported(f"{__name__}.{name}")


def measured(record: RunRecord) -> Measured | None:
    """Return the section of a report about the measurement that a run was a part of. Raises UsageError for damage."""
    for package in _packages():
        module: str = getattr(package, "REPORT_SECTION", "")
        section: Measured | None = imported(module).measured(record) if module else None
        if section is not None:
            return section
    return None


def verbs() -> dict[str, Verb]:
    """Return the verbs of all features."""
    found: dict[str, Verb] = {}
    for package in _packages():
        of_feature: Mapping[str, Verb] = package.VERBS
        found |= of_feature
    return found


def start_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of all features to `start`, which passes their values to `at_end`."""
    for option in reversed(_start_options()):
        command = click.option(f"--{option.name}", **option.attributes)(command)
    return command


def at_end(given: dict[str, Any]) -> tuple[AtEnd, ...]:
    """Take the values of `start_options` out of `given`, and return what to do at the end of the run.

    Raises UsageError for a value.
    """
    values = [(option, given.pop(option.name)) for option in _start_options()]
    return tuple(imported(option.module).at_end(value) for option, value in values if value is not None)


def _start_options() -> list[StartOption]:
    found: list[StartOption | None] = [getattr(package, "START_OPTION", None) for package in _packages()]
    return [option for option in found if option is not None]
