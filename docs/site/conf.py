"""Sphinx configuration of the documentation site (`make docs`). Its pages are the Markdown files of the repository."""

from __future__ import annotations

from typing import Any

from pylaunch.features.pages import reference

project = "pylaunch"
project_copyright = "The pylaunch authors"
root_doc = "docs/index"
extensions = ["myst_parser"]
include_patterns = ["*.md", "docs/**.md", "roles/*/README.md"]
exclude_patterns = [".*", "build", "dist", "tests", "pylaunch", "benchmarks"]
nitpicky = True
myst_heading_anchors = 4
highlight_language = "none"
suppress_warnings = ["toc.not_included"]
"""Pages of errors and decisions are linked from pages; in the sidebar of each page they would double the time."""

html_theme = "furo"
html_title = "pylaunch"
html_extra_path = ["redirect"]
html_copy_source = False
html_use_index = False


def _fill(app: Any, page: str, source: list[str]) -> None:
    source[0] = reference.filled(source[0])


def setup(app: Any) -> None:
    """Fill the pages of the reference with their data."""
    app.connect("source-read", _fill)
