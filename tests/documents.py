"""Command lines and Python of README.md and of the guides, and commands in sentences that pylaunch prints."""

import contextlib
import io
import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import click

from pylaunch.cli import main
from pylaunch.errors import ExitCode

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs/guides").glob("*.md")))
_BLOCK = re.compile(r"(?:^ {4,}\S.*\n(?:\n(?= {4,}\S))?)+", re.MULTILINE)
_LINE = re.compile(r"^ *(?:\$ )?(?:sudo |exec )?((?:[A-Z_]+=\S+ )*pylaunch .*)$", re.MULTILINE)
_PYTHON = re.compile(
    r"^```python\n((?:.*\n)*?)```$|^(?= {4}(?:import|from|def|with) )((?: {4}.*\n|\n(?= {4}))+)", re.MULTILINE
)
_REST = "…"
"""Placeholder of a page for words that the reader has."""

_HINT = re.compile(r"(?:hint|fix): (.*(?:\n {6}\S.*)*)")
_COMMAND = re.compile(rf"\bpylaunch (?=(?:{'|'.join(main.VERBS)})\b)")
_END = re.compile(r"\n|;|&&|,\s|\s\(|\)|`|\sor\s|\?$|\s…")
"""Ends of a command inside a sentence."""


@dataclass(frozen=True)
class DocumentedCommand:
    """A command line of a page."""

    page: str
    line: str

    @property
    def words(self) -> list[str]:
        """The words after `pylaunch`, without comment, redirection and placeholder, with an option for a bare $(…)."""
        words = shlex.split(re.sub(r"(?<!\")\$\(.+?\)", "--env=A=1", self.line.replace("$PWD/", "")), comments=True)
        words = words[words.index("pylaunch") + 1 :]
        end = next((place for place, word in enumerate(words) if word.startswith(">")), len(words))
        return [word for word in words[:end] if word != _REST]

    @property
    def verb(self) -> str:
        """The verb."""
        return self.words[0]

    def __str__(self) -> str:
        return f"{self.page}: {self.line}"


def blocks(path: Path) -> list[str]:
    """Return the indented blocks of a page."""
    return _BLOCK.findall(path.read_text())


def documented_commands() -> list[DocumentedCommand]:
    """Return all command lines of pylaunch, in the order of the pages."""
    lines = [(path.name, line) for path in PAGES for block in blocks(path) for line in _LINE.findall(block)]
    return [DocumentedCommand(page, " ".join(line.split())) for page, line in lines]


def python_in(path: Path) -> list[str]:
    """Return the blocks of Python of a page: fenced ones, and those that begin with a statement."""
    return [textwrap.dedent(fenced or indented) for fenced, indented in _PYTHON.findall(path.read_text())]


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield the words after `pylaunch` of each command in a sentence."""
    for rest in _COMMAND.split(text)[1:]:
        yield shlex.split(_END.split(rest)[0], comments=True)


def must_be_accepted(words: list[str]) -> None:
    """Fail unless pylaunch parses the command line: its verb, options, values and arguments."""
    printed = io.StringIO()
    with mock.patch.object(click.Command, "invoke", return_value=None), contextlib.redirect_stderr(printed):
        code = main.run(words)
    assert code != ExitCode.USAGE, f"refused: pylaunch {shlex.join(words)}\n{printed.getvalue()}"


def hints_must_be_accepted(printed: str) -> None:
    """Fail unless each command in the hints of `printed` is accepted."""
    for hint in _HINT.findall(printed):
        for words in commands_in(hint):
            must_be_accepted(words)
