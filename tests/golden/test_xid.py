"""The reference of Xid codes has the rows of the table. To write it: UPDATE_GOLDEN=1 pytest tests/golden."""

from pathlib import Path

from pylaunch.verdict.causes.xid import SOURCE, XIDS, XidKind
from tests.golden.files import golden, refilled

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "xid.md"

TABLE = "| code | name | kind | first action | what it means |\n|---|---|---|---|---|\n"


def page() -> str:
    """The reference as it should be."""
    rows = (
        f"| {each.code} | {each.name} | {each.kind.value} | {each.action.value} | {each.meaning} |\n"
        for each in sorted(XIDS.values(), key=lambda xid: xid.code)
    )
    return refilled(PAGE, TABLE, "".join(rows))


def test_the_reference_of_xids_has_the_rows_of_the_table() -> None:
    assert page() == golden(PAGE, page())


def test_every_kind_of_xid_is_explained_and_the_source_is_named() -> None:
    assert all(word in PAGE.read_text() for word in (SOURCE, *(f"- **{kind.value}**" for kind in XidKind)))
