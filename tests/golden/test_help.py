"""The words of `--help`, and the guide of coding agents. To accept new ones: UPDATE_GOLDEN=1 pytest tests/golden."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pylaunch.cli.main import VERBS, pylaunch
from pylaunch.errors import ExitCode
from pylaunch.terminal.doors import VerbGroup
from tests.golden.files import golden

DIRECTORY = Path(__file__).parent / "help"
PAGE = Path(__file__).parents[2] / "docs/verbs.md"
HEAD = """\
# Verbs and their options

`pylaunch VERB --help` prints the same text. This page is generated: `UPDATE_GOLDEN=1 pytest tests/golden`.
"""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command there is, by the words that call it."""
    yield "pylaunch", pylaunch
    for verb in VERBS:
        command = pylaunch.get_command(click.Context(pylaunch), verb)
        assert command is not None
        yield from below(f"pylaunch {verb}", command)


def below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for child, each in command.commands.items():
            yield from below(f"{name} {child}", each)


@pytest.mark.parametrize(("name", "command"), [pytest.param(*each, id=each[0]) for each in commands()])
def test_help_reads_as_it_did(name: str, command: click.Command) -> None:
    top = click.Context(pylaunch, help_option_names=pylaunch.context_settings["help_option_names"])
    context = click.Context(command, parent=top, info_name=name, terminal_width=100)
    context.parent = None
    text = command.get_help(context) + "\n"
    assert text == golden(DIRECTORY / f"{name.replace(' ', '-')}.txt", text)


def test_the_page_of_the_site_shows_the_help_of_each_command() -> None:
    files = [(name, f"../tests/golden/help/{name.replace(' ', '-')}.txt") for name, _ in commands()]
    parts = [f"\n## {name}\n\n```{{literalinclude}} {file}\n:language: text\n```\n" for name, file in files]
    assert HEAD + "".join(parts) == golden(PAGE, HEAD + "".join(parts))


def test_every_command_says_what_it_does() -> None:
    assert [name for name, command in commands() if not (command.help or "").strip()] == []


def test_the_list_of_verbs_fits_a_terminal_of_80_columns() -> None:
    lines = (DIRECTORY / "pylaunch.txt").read_text().splitlines()
    assert [line for line in lines if len(line) > 78] == []
    groups = {group: lines.index(f"{group.value}:") for group in VerbGroup}
    assert list(groups.values()) == sorted(groups.values())
    for name, verb in VERBS.items():
        assert f"  {name:12}{verb.help}" in lines


GUIDE = (Path(__file__).parents[2] / "docs/guides/agents.md").read_text()


def first_cells(title: str) -> list[str]:
    """The first cells of the table whose first column has this title."""
    (table,) = re.findall(rf"^\| {title} \|.*\n\|---.*\n((?:\|.*\n)+)", GUIDE, re.MULTILINE)
    return [row.split("|")[1].strip() for row in table.splitlines()]


def test_the_table_of_effects_has_each_verb_once() -> None:
    named = [text for cell in first_cells("verbs") for text in re.findall("`([^`]+)`", cell)]
    with_options = {text.split()[0] for text in named if " --" in text}
    alone = [text.split()[0] for text in named if " --" not in text and not text.startswith("--")]
    assert sorted({*alone, *with_options}) == sorted(VERBS)
    assert len(alone) == len(set(alone))


def test_the_table_of_exit_codes_is_whole() -> None:
    assert sorted(map(int, first_cells("exit code"))) == sorted(ExitCode)
