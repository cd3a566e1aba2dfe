"""The reference of checks is made from the registry. To accept a new one: UPDATE_GOLDEN=1 pytest tests/golden."""

from __future__ import annotations

import os
from pathlib import Path

from pylaunch.preflight.check import Check
from pylaunch.preflight.suite import CHECKS

PAGE = Path(__file__).parents[2] / "docs/reference/checks.md"

HEAD = """\
# Checks

What `pylaunch check` asks every host and how it judges the answers; `pylaunch check --list ID` says the same. *Start*
marks those that `pylaunch start` asks beside preparing its nodes, *deep* those that only `--deep` asks. *At worst* is
the most severe finding a check can make: `fail` (a run cannot work, or cannot be trusted), `warn` (it works and is
slower or at risk), `note` (worth knowing). What could not be measured is a finding of its own and never a pass. How to
use them is in [the guide](../guides/check.md), what was seen to find what in [the fault matrix](faults.md). This page
is made from the registry in `pylaunch/preflight`.
"""


def page() -> str:
    """The reference as it should be."""
    subjects = dict.fromkeys(check.id.partition(".")[0] for check in CHECKS)
    sections = [HEAD]
    for subject in subjects:
        rows = [row(check) for check in CHECKS if check.id.partition(".")[0] == subject]
        table = "| check | at worst | when | what it compares, and why |\n|---|---|---|---|\n" + "\n".join(rows)
        sections.append(f"## {subject}\n\n{table}\n")
    return "\n".join(sections)


def row(check: Check) -> str:
    """A check as a line of its subject's table."""
    when = "deep" if check.deep else "start" if check.at_start else ""
    told = f"{check.title}: {check.compares}. {check.why}".replace("|", "\\|")
    return f"| `{check.id}` | {check.severity.value} | {when} | {told} |"


def test_the_reference_of_checks_says_what_the_registry_knows() -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(page())
    assert PAGE.read_text() == page()
