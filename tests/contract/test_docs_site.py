"""All pages are read without a warning: links and anchors lead somewhere. Those written need no network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["'](?:https?:)?//|<link\b[^>]*\bhref=["'](?:https?:)?//"""
)
FETCHED_BY_STYLE = re.compile(r"""(?:url\(|@import )["']?(?:https?:)?//""")

PAGES = ("docs/index.md", "docs/guides/symptoms.md", "docs/guides/first-cluster.md")
"""Pages that are written; to write all takes three times as long."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    command = [str(ROOT / "scripts/docs"), str(directory), *PAGES]
    environment = {"VENV": sys.prefix, "PATH": "/usr/bin:/bin"}
    build = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert build.returncode == 0, build.stderr
    return directory


def test_a_page_fetches_nothing_from_the_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    assert [str(page.relative_to(site)) for page in pages if FETCHED.search(page.read_text())] == []
    styles = [path for path in site.rglob("*.css") if FETCHED_BY_STYLE.search(path.read_text())]
    assert styles == []


def test_the_first_page_leads_to_the_site(site: Path) -> None:
    target = re.search(r"url=([\w/.]+)", (site / "index.html").read_text())
    assert target is not None
    assert (site / target[1]).is_file()
