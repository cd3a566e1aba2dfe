"""The reference of causes has the rows of the table. To write it: UPDATE_GOLDEN=1 pytest tests/golden."""

from pathlib import Path

from pylaunch.model.diagnosis.cause import Certainty
from pylaunch.store.signatures import signatures
from pylaunch.verdict.causes.cause_kinds import KINDS
from tests.golden.files import golden, refilled

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "causes.md"

TABLE = "| kind | what happened | question that settles it | next command | classes |\n|---|---|---|---|---|\n"


def page() -> str:
    """The reference as it should be."""
    rows = (
        f"| `{each.id}` | {each.meaning} | {each.question} | {f'`{_cell(each.hint)}`' if each.hint else ''} "
        f"| {_classes(each.id)} |\n"
        for each in KINDS.values()
    )
    return refilled(PAGE, TABLE, "".join(rows).replace("|  |", "| |").replace("|  |", "| |"))


def _classes(kind: str) -> str:
    found = (each for each in signatures().causes.values() if each.kind == kind)
    return ", ".join(f"[{each.id}](errors-{each.page}.md#{each.id})" for each in found)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def test_the_reference_of_causes_has_the_rows_of_the_table() -> None:
    assert page() == golden(PAGE, page())


def test_every_confidence_is_explained() -> None:
    assert all(f"- **{confidence.value}**" in PAGE.read_text() for confidence in Certainty)
