"""The reference of checks is made from the registry. To accept a new one: UPDATE_GOLDEN=1 pytest tests/golden."""

from pathlib import Path

from pylaunch.checks.check import Check
from pylaunch.checks.start_table import REFUSALS, START_TABLE
from pylaunch.checks.suite import CHECKS
from tests.golden.files import golden, refilled

PAGE = Path(__file__).parents[2] / "docs/reference/checks.md"

AT_START = "| check | at start | why |\n|---|---|---|\n"
REFUSED = "| refusal | check |\n|---|---|\n"


def page() -> str:
    """The reference as it should be."""
    subjects = dict.fromkeys(check.id.partition(".")[0] for check in CHECKS)
    sections = ""
    for subject in subjects:
        rows = "".join(row(check) for check in CHECKS if check.id.partition(".")[0] == subject)
        sections += (
            f"\n## {subject}\n\n| check | at worst | when | what it compares, and why |\n|---|---|---|---|\n{rows}"
        )
    text = refilled(PAGE, "`pylaunch/checks`.\n", sections, "\n\n## Checks and start")
    rows = "".join(
        f"| `{check.id}` | {START_TABLE[check.id].at_start.value} | {START_TABLE[check.id].why} |\n" for check in CHECKS
    )
    text = refilled(text, AT_START, rows)
    rows = "".join(f"| `{code}` | {f'`{check}`' if check else 'only a start'} |\n" for code, check in REFUSALS.items())
    return refilled(text, REFUSED, rows)


def row(check: Check) -> str:
    """A check as a line of its subject's table."""
    when = "deep" if check.deep else ""
    told = f"{check.title}: {check.compares}. {check.why}".replace("|", "\\|")
    return f"| `{check.id}` | {check.severity.value} | {when} | {told} |\n"


def test_the_reference_of_checks_says_what_the_registry_knows() -> None:
    assert page() == golden(PAGE, page())
