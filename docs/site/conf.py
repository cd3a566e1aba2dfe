"""Sphinx configuration of the documentation site (`make docs`). Its pages are the Markdown files of the repository."""

from __future__ import annotations

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
