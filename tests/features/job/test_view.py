"""Lines of a job about its parts."""

from types import SimpleNamespace
from typing import cast

import click
import pytest

from pylaunch.errors import ClusterNotReadyError
from pylaunch.features.job.controller import PartOver, PlannedPart
from pylaunch.features.job.view import JobView
from pylaunch.terminal.invocation import Invocation


def test_a_hint_of_a_refused_part_has_the_inventory_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    part = cast("PlannedPart", SimpleNamespace(part=SimpleNamespace(name="trainer")))
    with click.Context(click.Command("start"), obj=Invocation(inventory=("-i", "cluster.ini"))):
        view = JobView([part])
    view.show(part, PartOver(None, ClusterNotReadyError("refused", hint="pylaunch check")))  # As its thread does.
    assert capsys.readouterr().err.endswith("hint: pylaunch check -i cluster.ini\n")
