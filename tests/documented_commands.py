"""Command lines and Python in README.md and in the guides, and the blocks that have none."""

import re
import shlex
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs/guides").glob("*.md")))
_BLOCK = re.compile(r"(?:^ {4,}\S.*\n(?:\n(?= {4,}\S))?)+", re.MULTILINE)
_PROGRAMS = "pylaunch|sinfo|scontrol|pip|export|mkdir|make|kubectl|ssh-keygen|ufw|ansible-playbook|apptainer|docker"
_LINE = re.compile(rf"^ *(?:\$ )?(?:sudo |exec )?((?:[A-Z_]+=\S+ )*(?:{_PROGRAMS}) .*)$", re.MULTILINE)
_PYTHON = re.compile(
    r"^```python\n((?:.*\n)*?)```$|^(?= {4}(?:import|from|def|with) )((?: {4}.*\n|\n(?= {4}))+)", re.MULTILINE
)
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
        words = shlex.split(self.line.replace("$PWD/", ""), comments=True)
        words = words[words.index("pylaunch") + 1 :]
        end = next((place for place, word in enumerate(words) if word.startswith(">")), len(words))
        return [word for word in words[:end] if word != REST]

    @property
    def typed(self) -> str:
        """The line without its comment."""
        return re.sub(r" +# .*", "", self.line)

    @property
    def verb(self) -> str:
        """The verb."""
        return self.words[0]

    def __str__(self) -> str:
        return f"{self.page}: {self.line}"


def blocks(path: Path) -> list[str]:
    """Return the indented blocks of a page."""
    return _BLOCK.findall(path.read_text())


def commands_in(block: str) -> list[str]:
    """Return the command lines of a block."""
    return [" ".join(line.split()) for line in _LINE.findall(block)]


def lines_beside_commands(block: str) -> list[str]:
    """Return the lines of a block that are typed as its commands are and are none: with `$`, or without an empty line
    between."""
    prompted = [line for line in block.splitlines() if line.strip().startswith("$ ")]
    parts = [prompted] if prompted else [part.splitlines() for part in block.split("\n\n") if commands_in(part)]
    return [line for part in parts for line in part if line.strip() and not commands_in(line)]


def samples_in(path: Path) -> dict[str, list[str]]:
    """Return the lines that a page shows after each command line with `$`, without their indentation."""
    parts = [part for block in blocks(path) for part in re.split(r"^ *\$ ", block, flags=re.MULTILINE)[1:]]
    return {part.splitlines()[0]: [line.strip() for line in part.splitlines()[1:] if line.strip()] for part in parts}


def python_in(path: Path) -> list[str]:
    """Return the blocks of Python of a page: fenced ones, and those that begin with a statement."""
    return [textwrap.dedent(fenced or indented) for fenced, indented in _PYTHON.findall(path.read_text())]


def commands_of(path: Path) -> list[DocumentedCommand]:
    """Return the command lines of a page, in the order in which a reader types them, with their comments."""
    return [DocumentedCommand(path.name, line) for block in blocks(path) for line in commands_in(block)]


def documented_commands() -> list[DocumentedCommand]:
    """Return all command lines of pylaunch, in the order of the pages."""
    return [each for path in PAGES for each in commands_of(path) if re.search(r"\bpylaunch ", each.typed)]
