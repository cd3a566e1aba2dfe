"""Guides and reference pages, and the example inventories, by the name that `pylaunch help` calls them."""

from __future__ import annotations

from pathlib import Path

from pylaunch.store.content import content_directory

_FOLDERS = ("docs/guides", "docs/reference", "docs/concepts")
_EXAMPLES = "inventory"


def pages() -> dict[str, Path]:
    """Every page by its topic: the name of its file, without `.md`."""
    root = content_directory()
    found = {path.stem: path for folder in _FOLDERS for path in sorted((root / folder).glob("*.md"))}
    return found | {path.name: path for path in sorted((root / _EXAMPLES).glob("cluster.*"))}


def title(page: Path) -> str:
    """Return the first line of a page, without its heading mark; YAML begins after `---`."""
    with page.open(encoding="utf-8") as text:
        first = text.readline().strip()
        return (text.readline() if first == "---" else first).strip().lstrip("#").strip()
