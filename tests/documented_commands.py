"""Command lines of pylaunch in README.md and in the guides."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs/guides").glob("*.md")))
_LINE = re.compile(r"^ {4,}(?:\$ )?(?:sudo )?(pylaunch .*)$", re.MULTILINE)
REST = "…"
"""Placeholder of a page for words that the reader has."""


@dataclass(frozen=True)
class DocumentedCommand:
    """A command line of a page."""

    page: str
    line: str

    @property
    def words(self) -> list[str]:
        """The words after `pylaunch`, without comment, redirection and REST."""
        words = shlex.split(self.line.replace("$PWD/", ""), comments=True)[1:]
        end = next((place for place, word in enumerate(words) if word.startswith(">")), len(words))
        return [word for word in words[:end] if word != REST]

    @property
    def verb(self) -> str:
        """The verb."""
        return self.words[0]

    def __str__(self) -> str:
        return f"{self.page}: {self.line}"


def documented_commands() -> list[DocumentedCommand]:
    """Return all command lines in blocks of code, in the order of the pages."""
    return [
        DocumentedCommand(path.name, " ".join(line.split()))
        for path in PAGES
        for line in _LINE.findall(path.read_text())
    ]
