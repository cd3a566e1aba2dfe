"""Features: rooms that no other code needs.

A feature is removed with its folder here, its tests in `tests/features/<name>` and its line in FEATURES
(`scripts/test-without-feature`). Only the command line imports this package, and no feature imports another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pylaunch.terminal.late_import import imported
from pylaunch.terminal.verbs import Verb

if TYPE_CHECKING:
    from pylaunch.model.run import RunRecord
    from pylaunch.report.content import Measured

FEATURES = (
    "bench",
    "drift",
    "lab",
)
"""Packages of this package. Each has VERBS: its verbs by name."""


def measured(record: RunRecord) -> Measured | None:
    """Return the section of a report about the measurement that a run was a part of. Raises UsageError for damage."""
    for name in FEATURES:
        module: str = getattr(imported(f"{__name__}.{name}"), "REPORT_SECTION", "")
        section: Measured | None = imported(module).measured(record) if module else None
        if section is not None:
            return section
    return None


def verbs() -> dict[str, Verb]:
    """Return the verbs of all features."""
    found: dict[str, Verb] = {}
    for name in FEATURES:
        of_feature: Mapping[str, Verb] = imported(f"{__name__}.{name}").VERBS
        found |= of_feature
    return found
