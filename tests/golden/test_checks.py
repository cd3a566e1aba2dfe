"""The reference of checks is made from the registry. To accept a new one: UPDATE_GOLDEN=1 pytest tests/golden."""

from pathlib import Path

from pylaunch.checks.check import Check
from pylaunch.checks.start_table import REFUSALS, START_TABLE
from pylaunch.checks.suite import CHECKS
from tests.golden.files import golden

PAGE = Path(__file__).parents[2] / "docs/reference/checks.md"

HEAD = """\
# Checks

All checks of `pylaunch check`; `pylaunch check --list ID` prints the same. *Deep* marks checks that only `--deep` runs.
*At worst* is the most severe finding of a check: `fail` (a run cannot work, or its result cannot be trusted), `warn` (a
run works, but is slower or at risk), `note` (for information). A check that could not measure is reported separately
and never counts as passed. [The last table](#checks-and-start) lists the checks that a start runs. See also
[how to use checks](../guides/check.md) and [the faults that they find](faults.md). This page is generated from
`pylaunch/checks`.
"""

START = """\
## Checks and start

How `pylaunch start` uses each check before any rank exists:

- *asked*: the probe asks while the nodes prepare. A failure refuses the start; a warning, or a check that could not
  measure, is printed.
- *reported*: judged from reports and connection attempts of the agents; refuses and warns like *asked*.
- *agent*: the connection to the agent, or the agent itself, refuses; `--skip` and `--no-check` do not change that.
- *not asked*: `start` does not run this check. A check that can fail is omitted only because of its cost, or because
  another one refuses.
"""

REFUSED = """\
Reasons for which agents refuse, and the check that finds the same problem:
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
    assert page() == golden(PAGE, page())
