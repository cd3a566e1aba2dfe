"""The guide for coding agents knows the effect of every verb, and every exit code."""

from __future__ import annotations

import re
from pathlib import Path

from pylaunch.cli.main import VERBS
from pylaunch.errors import ExitCode

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
