"""Every command line in a block of README.md and of the guides is one that pylaunch accepts.

Those of `help`, --help and --list run. All others are only parsed here: verb, options, values and arguments. Those of
README.md run in tests/lab/test_readme.py, those of the guides where tests/guides.py says, and
tests/starts/test_documented_commands.py plans starts and renders files.
"""

import re
from pathlib import Path

import click
import pytest

from pylaunch.cli import main
from pylaunch.cli.commands.maintain.help import pages, title
from pylaunch.cli.commands.run.start import command
from pylaunch.cli.main import VERBS
from pylaunch.errors import ExitCode
from tests.documented_commands import (
    PAGES,
    DocumentedCommand,
    blocks,
    commands_in,
    commands_of,
    documented_commands,
    lines_beside_commands,
)
from tests.guides import GUIDES, IN_NO_TEST, is_sample

RUN = {"help", "--help", "--list"}


@pytest.mark.parametrize("command", documented_commands(), ids=str)
def test_a_command_of_the_documentation_is_accepted(
    command: DocumentedCommand, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "before.json").touch()
    (tmp_path / "examples").mkdir()
    if RUN.isdisjoint(command.words):
        monkeypatch.setattr(click.Command, "invoke", lambda self, context: None)  # Groups parse on, and nothing runs.
    assert main.run(command.words) == ExitCode.DONE, capsys.readouterr().err


def test_commands_are_found() -> None:
    found = documented_commands()
    assert len(found) > 150
    assert {"start", "render", "bench", "stacks", "env"} <= {each.verb for each in found}


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_a_block_of_a_guide_has_commands_that_tests_know_or_is_a_sample(page: Path) -> None:
    unknown = [block for block in blocks(page) if not commands_in(block) and not is_sample(block)]
    assert not unknown, "add its program to tests/documented_commands.py, or its beginning to tests/guides.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_line_beside_a_command_is_a_command(page: Path) -> None:
    typed = [block for block in blocks(page) if not is_sample(block)]
    assert [line for block in typed for line in lines_beside_commands(block)] == []


def test_lines_that_are_typed_beside_commands_are_found() -> None:
    block = "    $ pylaunch status\n    no runs\n    $ pylunch stop\n"
    assert lines_beside_commands(block) == ["    $ pylunch stop"]
    assert lines_beside_commands("    pylaunch status\n    squeue\n\n    RUN  STATE\n") == ["    squeue"]


def test_what_runs_in_no_test_is_in_a_guide() -> None:
    lines = [each.typed for page in GUIDES for each in commands_of(page)]
    assert [begin for begin in IN_NO_TEST if not any(line.startswith(begin) for line in lines)] == []


def test_every_page_has_a_title_of_words() -> None:
    without = [topic for topic, page in pages().items() if not title(page)[:1].isalpha()]
    assert without == []


GUIDE = Path(__file__).parents[3] / "docs/guides/from-torchrun-or-slurm.md"


def test_every_flag_and_verb_on_pylaunchs_side_exists() -> None:
    tables = GUIDE.read_text().partition("## Words of other tools")[0]
    ours = [line.rsplit("|", 2)[1] for line in tables.splitlines() if line.startswith("| ")]
    words = [word for cell in ours for typed in re.findall(r"`([^`]+)`", cell) for word in typed.split()]
    flags = {word.partition("=")[0] for word in words if word.startswith("--")}
    verbs = {verb for cell in ours for verb in re.findall(r"`pylaunch ([a-z]+)", cell)} - {"start"}
    known = {flag for option in command.params if isinstance(option, click.Option) for flag in option.opts}
    assert len(flags) > 15
    assert flags - known - {"--all"} == set()
    assert len(verbs) > 5
    assert verbs <= set(VERBS)
