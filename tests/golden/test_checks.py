"""The reference of checks is made from the registry. To accept a new one: UPDATE_GOLDEN=1 pytest tests/golden."""

from __future__ import annotations

import os
from pathlib import Path

from pylaunch.preflight.check import Check
from pylaunch.preflight.start_table import REFUSALS, START_TABLE
from pylaunch.preflight.suite import CHECKS

PAGE = Path(__file__).parents[2] / "docs/reference/checks.md"

HEAD = """\
# Checks

What `pylaunch check` asks every host and how it judges the answers; `pylaunch check --list ID` says the same. *Deep*
marks those that only `--deep` asks; what each is to a start says [the last table](#checks-and-start). *At worst* is
the most severe finding a check can make: `fail` (a run cannot work, or cannot be trusted), `warn` (it works and is
slower or at risk), `note` (worth knowing). What could not be measured is a finding of its own and never a pass. How to
use them is in [the guide](../guides/check.md), what was seen to find what in [the fault matrix](faults.md). This page
is made from the registry in `pylaunch/preflight`.
"""

START = """\
## Checks and start

What `pylaunch start` makes of each check before any rank exists:

- *asked*: the probe asks beside the preparation. A failure refuses the start; a warning, and what could not be
  measured, is printed.
- *reported*: judged from what the agents report or try while they prepare; refuses and warns like *asked*.
- *agent*: the connection to the agent, or the agent itself, refuses; `--skip` and `--no-check` do not change that.
- *not asked*: `start` starts in spite of it and prints nothing. A check that can fail is not asked only because of its
  cost, or because another one refuses.
"""

REFUSED = """\
What the agents refuse, and the check that finds the same before:
"""


def page() -> str:
    """The reference as it should be."""
    subjects = dict.fromkeys(check.id.partition(".")[0] for check in CHECKS)
    sections = [HEAD]
    for subject in subjects:
        rows = [row(check) for check in CHECKS if check.id.partition(".")[0] == subject]
        table = "| check | at worst | when | what it compares, and why |\n|---|---|---|---|\n" + "\n".join(rows)
        sections.append(f"## {subject}\n\n{table}\n")
    rows = [
        f"| `{check.id}` | {START_TABLE[check.id].at_start.value} | {START_TABLE[check.id].why} |" for check in CHECKS
    ]
    sections.append(START + "\n| check | at start | why |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    rows = [f"| `{code}` | {f'`{check}`' if check else 'only a start'} |" for code, check in REFUSALS.items()]
    sections.append(REFUSED + "\n| refusal | check |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(sections)


def row(check: Check) -> str:
    """A check as a line of its subject's table."""
    when = "deep" if check.deep else ""
    told = f"{check.title}: {check.compares}. {check.why}".replace("|", "\\|")
    return f"| `{check.id}` | {check.severity.value} | {when} | {told} |"


def test_the_reference_of_checks_says_what_the_registry_knows() -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(page())
    assert PAGE.read_text() == page()
