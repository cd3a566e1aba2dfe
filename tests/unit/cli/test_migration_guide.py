"""Flags and verbs in the guide for users of other launchers exist."""

from __future__ import annotations

import re
from pathlib import Path

import click

from pylaunch.cli.commands.start import command
from pylaunch.cli.main import VERBS

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
