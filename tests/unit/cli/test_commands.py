"""Every command has its help, and the guide of coding agents names every verb."""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from pylaunch.cli.main import VERBS, pylaunch
from pylaunch.errors import ExitCode


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


def test_every_command_says_what_it_does() -> None:
    assert [name for name, command in commands() if not (command.help or "").strip()] == []


GUIDE = (Path(__file__).parents[3] / "docs/guides/agents.md").read_text()


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
