"""The guide lists the words of other tools that lead to commands. To write it: UPDATE_GOLDEN=1 pytest tests/golden."""

from __future__ import annotations

import os
from pathlib import Path

from pylaunch.terminal.other_tools import COMMANDS

PAGE = Path(__file__).parents[2] / "docs/guides/from-torchrun-or-slurm.md"
HEAD = "| typed after `pylaunch` | command |\n|---|---|\n"


def table() -> str:
    """The table as it should be."""
    typed: dict[str, list[str]] = {}
    for word, command in COMMANDS.items():
        typed.setdefault(command, []).append(f"`{word}`")
    return HEAD + "".join(f"| {', '.join(words)} | `pylaunch {command}` |\n" for command, words in typed.items())


def test_the_guide_has_the_words_of_the_table() -> None:
    text = PAGE.read_text()
    before, _, _ = text.partition(HEAD)
    expected = before + table()
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(expected)
        text = expected
    assert text == expected
