"""Lines of a job about its parts."""

from types import SimpleNamespace
from typing import cast

import click
import pytest

from pylaunch.cli.main import VERBS
from pylaunch.errors import ClusterNotReadyError
from pylaunch.features.job.controller import PartOver, PlannedPart
from pylaunch.features.job.view import JobView
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.terminal.options import Invocation


def test_each_hint_of_a_part_has_the_inventory_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    part = cast("PlannedPart", SimpleNamespace(part=SimpleNamespace(name="trainer")))
    with click.Context(click.Command("start"), obj=Invocation(verbs=VERBS, inventory=("-i", "cluster.ini"))):
        view = JobView([part])
    view.show(part, PartOver(ClusterNotReadyError("refused", hint="pylaunch check")))  # As its thread does.
    assert capsys.readouterr().err.endswith("hint: pylaunch check -i cluster.ini\n")
    finding = Finding("storage.room", Severity.WARN, ("n1",), "full", fix="pylaunch clean --limit n1")
    view.show(part, finding)
    assert capsys.readouterr().err.endswith("fix: pylaunch clean -i cluster.ini --limit n1\n")
