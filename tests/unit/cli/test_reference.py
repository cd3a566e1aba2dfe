"""Pages of the reference have the data that their comments name, and their links lead somewhere."""

import re
from pathlib import Path

from pylaunch.checks.suite import CHECKS
from pylaunch.cli import reference
from pylaunch.model.diagnosis.cause import Certainty
from pylaunch.store.signatures import signatures
from pylaunch.verdict.causes.xid import SOURCE, XIDS, XidKind
from pylaunch.verdict.logs.signature import Role

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {path: reference.filled(path.read_text()) for path in sorted((DOCS / "reference").glob("*.md"))}


def page(name: str) -> str:
    return PAGES[DOCS / "reference" / f"{name}.md"]


def test_every_comment_is_replaced() -> None:
    assert [path.name for path, text in PAGES.items() if "<!-- data" in text] == []


def test_every_page_of_signatures_and_every_role_has_its_page() -> None:
    roles = {path.name for path in (DOCS.parent / "roles").iterdir()}
    expected = {f"errors-{name}" for name in signatures().pages} | {f"role-{name}" for name in roles}
    assert {path.stem for path in PAGES if path.stem.startswith(("errors-", "role-"))} == expected


def test_pages_have_the_entries_of_the_data() -> None:
    for each in signatures().causes.values():
        assert f"### {each.id}\n" in page(f"errors-{each.page}")
        assert f"errors-{each.page}.md#{each.id}" in page("causes")
    assert all(f"| `{check.id}` |" in page("checks") for check in CHECKS)
    assert all(f"| {code} |" in page("xid") for code in XIDS)
    assert "| `time_sync_servers` | list |" in page("role-time_sync")


def test_every_role_of_a_text_every_confidence_and_every_kind_of_xid_is_explained() -> None:
    assert all(f"*{role.value}*" in reference.ROLES_OF_TEXTS for role in Role)
    assert all(f"- **{confidence.value}**" in page("causes") for confidence in Certainty)
    assert all(word in page("xid") for word in (SOURCE, *(f"- **{kind.value}**" for kind in XidKind)))


def test_links_to_headings_of_the_reference_lead_somewhere() -> None:
    headings = {path.name: set(re.findall(r"^#+ (.+)$", text, re.MULTILINE)) for path, text in PAGES.items()}
    anchors = {name: {each.lower().replace(" ", "-") for each in found} for name, found in headings.items()}
    links = [link for text in PAGES.values() for link in re.findall(r"\((errors-[\w-]+\.md)#([\w-]+)\)", text)]
    assert len(links) > 50
    assert [link for link in links if link[1] not in anchors[link[0]]] == []
